/* neon_dotprod.c – see probe.h. */
#include <arm_neon.h>

#include "cpu/kernels/probe/probe.h"

uint32_t probe_int8_neon_dotprod(uint32_t rounds, int32_t *ret_sum) {
  enum { SUMS = 16 };
  const int8x16_t w = vdupq_n_s8(3);
  int32x4_t sums[SUMS];
#pragma GCC unroll 16
  for (int i = 0; i < SUMS; i++) {
    sums[i] = vdupq_n_s32(0);
  }
  for (uint32_t r = 0; r < rounds; r++) {
#pragma GCC unroll 16
    for (int i = 0; i < SUMS; i++) {
      int8x16_t x = w;
      __asm__ volatile("" : "+w"(x));
      sums[i] = vdotq_s32(sums[i], w, x);
    }
  }
  int32x4_t all = sums[0];
  for (int i = 1; i < SUMS; i++) {
    all = vaddq_s32(all, sums[i]);
  }
  *ret_sum = vaddvq_s32(all);
  return SUMS * 16;
}
