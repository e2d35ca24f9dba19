/* avx2.c – see probe.h and body.h. */
#include "cpu/kernels/probe/body.h"

float probe_read_avx2(const float *data, size_t bytes) { return read_all(data, bytes); }

/* Eight independent sums of the sequence that matmul_q8 uses: bytes to pairs, pairs to words, words added. */
uint32_t probe_int8_avx2(uint32_t rounds, int32_t *ret_sum) {
  enum { SUMS = 8 };
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i w = _mm256_set1_epi8(3);
  __m256i sums[SUMS];
#pragma GCC unroll 8
  for (int i = 0; i < SUMS; i++) {
    sums[i] = _mm256_setzero_si256();
  }
  for (uint32_t r = 0; r < rounds; r++) {
#pragma GCC unroll 8
    for (int i = 0; i < SUMS; i++) {
      __m256i x = w;
      __asm__ volatile("" : "+x"(x));
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
    }
  }
  __m256i all = sums[0];
  for (int i = 1; i < SUMS; i++) {
    all = _mm256_add_epi32(all, sums[i]);
  }
  *ret_sum = _mm256_extract_epi32(all, 0);
  return SUMS * 32;
}
