/* avx512vnni.c – see probe.h. */
#include <immintrin.h>

#include "cpu/kernels/probe/probe.h"

uint32_t probe_int8_avx512vnni(uint32_t rounds, int32_t *ret_sum) {
  enum { SUMS = 16 };
  const __m512i w = _mm512_set1_epi8(3);
  __m512i sums[SUMS];
#pragma GCC unroll 16
  for (int i = 0; i < SUMS; i++) {
    sums[i] = _mm512_setzero_si512();
  }
  for (uint32_t r = 0; r < rounds; r++) {
#pragma GCC unroll 16
    for (int i = 0; i < SUMS; i++) {
      __m512i x = w;
      __asm__ volatile("" : "+v"(x));
      sums[i] = _mm512_dpbusd_epi32(sums[i], w, x);
    }
  }
  __m512i all = sums[0];
  for (int i = 1; i < SUMS; i++) {
    all = _mm512_add_epi32(all, sums[i]);
  }
  *ret_sum = _mm512_reduce_add_epi32(all);
  return SUMS * 64;
}
