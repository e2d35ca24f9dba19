/*
 * affinity.h – the set of processors that a thread may run on. Wider than glibc's fixed set, so that machines of more than 1024 can be named.
 */
#ifndef OS_AFFINITY_H
#define OS_AFFINITY_H

#include <stdint.h>

enum { CPUS_MAX = 8192 };

typedef struct cpu_mask {
  uint64_t words[CPUS_MAX / 64];
} cpu_mask;

/* The calling thread's. Both return 0, or -1 with errno. */
int cpu_mask_get(cpu_mask *ret_mask);
int cpu_mask_set(const cpu_mask *mask);
cpu_mask cpu_mask_of(uint32_t cpu);
int cpu_mask_has(const cpu_mask *mask, uint32_t cpu);
uint32_t cpu_mask_count(const cpu_mask *mask);
/* "0-3,8", cut short with "…" where it does not fit into `bytes` (at least 4). */
void cpu_mask_text(const cpu_mask *mask, char *ret_text, uint32_t bytes);

#endif
