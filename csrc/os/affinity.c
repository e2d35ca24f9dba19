/* affinity.c – see affinity.h. */
#include "os/affinity.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

int cpu_mask_get(cpu_mask *ret_mask) {
  *ret_mask = (cpu_mask){0};
  return sched_getaffinity(0, sizeof *ret_mask, (cpu_set_t *)(void *)ret_mask->words);
}

int cpu_mask_set(const cpu_mask *mask) { return sched_setaffinity(0, sizeof *mask, (const cpu_set_t *)(const void *)mask->words); }

cpu_mask cpu_mask_of(uint32_t cpu) {
  cpu_mask mask = {0};
  if (cpu < CPUS_MAX) {
    mask.words[cpu / 64] = (uint64_t)1 << cpu % 64;
  }
  return mask;
}

int cpu_mask_has(const cpu_mask *mask, uint32_t cpu) { return cpu < CPUS_MAX && (mask->words[cpu / 64] >> cpu % 64 & 1) != 0; }

uint32_t cpu_mask_count(const cpu_mask *mask) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
    count += (uint32_t)__builtin_popcountll(mask->words[i]);
  }
  return count;
}

void cpu_mask_text(const cpu_mask *mask, char *ret_text, uint32_t bytes) {
  uint32_t used = 0;
  ret_text[0] = '\0';
  for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
    if (!cpu_mask_has(mask, cpu)) {
      continue;
    }
    const uint32_t first = cpu;
    while (cpu_mask_has(mask, cpu + 1)) {
      cpu++;
    }
    char part[32];
    const int length = first == cpu ? snprintf(part, sizeof part, "%s%u", used > 0 ? "," : "", cpu)
                                    : snprintf(part, sizeof part, "%s%u-%u", used > 0 ? "," : "", first, cpu);
    if (used + (uint32_t)length + sizeof "…" > bytes) {
      memcpy(ret_text + used, "…", sizeof "…");
      return;
    }
    memcpy(ret_text + used, part, (size_t)length + 1);
    used += (uint32_t)length;
  }
}
