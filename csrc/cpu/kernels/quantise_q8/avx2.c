/* avx2.c – see quantise_q8.h. 32 values at a time; rounding by the conversion, which rounds to nearest even as ref.c's addition does. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/kernels/quantise_q8/quantise_q8.h"

static float largest(__m256 v) {
  const __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 b = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* 32 values to codes in order; packing works within 128-bit lanes, the permutation undoes that. */
static __m256i codes_of(const float *x, __m256 inverse) {
  __m256i v[4];
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
  }
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void sums_of(__m256i codes, int16_t *ret) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  const __m256i eights = _mm256_add_epi32(quads, _mm256_shuffle_epi32(quads, 0xb1));
  const __m256i all = _mm256_add_epi32(eights, _mm256_shuffle_epi32(eights, 0x4e));
  ret[0] = (int16_t)_mm256_extract_epi32(all, 0);
  ret[1] = (int16_t)_mm256_extract_epi32(all, 4);
}

void quantise_q8_avx2(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums) {
  const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  for (uint32_t first = 0; first < n; first += block) {
    const uint32_t end = n - first < block ? n : first + block;
    __m256 maximum = _mm256_setzero_ps();
    __m256 poison = _mm256_setzero_ps();
    for (uint32_t i = first; i < end; i += 8) {
      const __m256 v = _mm256_loadu_ps(x + i);
      maximum = _mm256_max_ps(_mm256_and_ps(v, no_sign), maximum); /* the second operand where the first is NaN */
      poison = _mm256_add_ps(poison, _mm256_mul_ps(v, _mm256_setzero_ps()));
    }
    const float top = largest(maximum);
    const int broken = _mm256_movemask_ps(_mm256_cmp_ps(poison, poison, _CMP_UNORD_Q));
    const __m256 inverse = _mm256_set1_ps(top > QUANTISE_Q8_TINY ? 127.0f / top : 0.0f);
    ret_scales[first / block] = broken ? NAN : top / 127.0f;
    for (uint32_t i = first; i < end; i += 32) {
      const __m256i codes = codes_of(x + i, inverse);
      _mm256_storeu_si256((__m256i *)(ret_codes + i), codes);
      sums_of(codes, ret_sums + i / 16);
    }
  }
}
