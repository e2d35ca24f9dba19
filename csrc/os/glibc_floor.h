/*
 * glibc_floor.h – included before every source of the shared library: binds functions that glibc gave a newer version to the first one,
 * so that a library built on a new system loads on an old one. Owns no code. The stated floor is glibc 2.28; the build checks it.
 */
#ifndef OS_GLIBC_FLOOR_H
#define OS_GLIBC_FLOOR_H

#if defined(__x86_64__)
#define OS_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OS_FIRST_GLIBC "GLIBC_2.17"
#endif
#define OS_BIND_FIRST(name) __asm__(".symver " #name "," #name "@" OS_FIRST_GLIBC);

/* Moved from libpthread into libc in 2.32 and 2.34. */
OS_BIND_FIRST(pthread_create)
OS_BIND_FIRST(pthread_join)
OS_BIND_FIRST(pthread_sigmask)
/* Without the matherr wrapper since 2.29; same values. */
OS_BIND_FIRST(exp)
OS_BIND_FIRST(log)
OS_BIND_FIRST(pow)

#undef OS_BIND_FIRST
#undef OS_FIRST_GLIBC

#endif
