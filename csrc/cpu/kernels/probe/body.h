/* body.h – the reading loop once for all widths. Included by the variants only. */
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/probe/probe.h"

/* 4 KiB ahead: far enough for the memory's latency. */
enum { CHAINS = 4, AHEAD = 4096 };

LANES_INLINE float read_all(const float *data, size_t bytes) {
  lanes sums[CHAINS] = {lanes_set(0), lanes_set(0), lanes_set(0), lanes_set(0)};
  const uint8_t *p = (const uint8_t *)data;
  for (size_t at = 0; at < bytes; at += CHAINS * sizeof(lanes)) {
    __builtin_prefetch(p + at + AHEAD);
    if (CHAINS * sizeof(lanes) > 64) {
      __builtin_prefetch(p + at + AHEAD + 64);
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < CHAINS; j++) {
      sums[j] = lanes_add(sums[j], lanes_load((const float *)(const void *)(p + at) + j * LANES));
    }
  }
  return lanes_sum(lanes_add(lanes_add(sums[0], sums[1]), lanes_add(sums[2], sums[3])));
}
