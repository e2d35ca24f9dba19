/*
 * lock.c – see lock.h. Only the kernel knows whether the limit counts for this process (a capability in the right user namespace lifts it),
 * so it is asked with a range that holds nothing.
 */
#include "os/lock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/fault.h"

static unsigned long long mib(uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

static int32_t refuse(uint64_t bytes, int why, surge_error *err) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    return error_set(err, SURGE_E_MEMORY,
                     "%llu MiB must be locked into memory (mlock) and this process may lock %llu KiB (RLIMIT_MEMLOCK): raise the limit with ulimit -l or "
                     "LimitMEMLOCK= in the systemd unit, or leave mlock out",
                     mib(bytes), (unsigned long long)limit.rlim_cur >> 10);
  }
  return error_set(err, SURGE_E_MEMORY, "%llu MiB cannot be locked into memory (mlock): %s; free memory, or leave mlock out", mib(bytes), strerror(why));
}

int32_t memory_lock_check(uint64_t bytes, surge_error *err) {
  errno = ENOMEM; /* of an injected failure */
  void *range = fault_now() || bytes > SIZE_MAX ? MAP_FAILED : mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    return refuse(bytes, errno, err);
  }
  const int failed = mlock2(range, bytes, MLOCK_ONFAULT) != 0;
  const int why = errno;
  munmap(range, bytes);
  return failed ? refuse(bytes, why, err) : SURGE_OK;
}

int32_t memory_lock(const void *base, uint64_t bytes, surge_error *err) {
  errno = ENOMEM;
  return fault_now() || mlock2(base, bytes, 0) != 0 ? refuse(bytes, errno, err) : SURGE_OK;
}
