/*
 * lanes.h – float32 vectors as wide as the file that includes it may use, so that a kernel body is written once for all processors.
 *
 * The width follows the compile flags, and those follow the file's base name (csrc/CMakeLists.txt). Without vectors that can fuse, a
 * lane is a scalar and fmaf() fuses in software: slow, and the specification. Everything is static: only kernel files include this.
 */
#ifndef CPU_KERNELS_LANES_H
#define CPU_KERNELS_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "quant/half.h"

#define LANES_INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__)
#include <immintrin.h>
enum { LANES = 16 };
typedef __m512 lanes;
LANES_INLINE lanes lanes_load(const float *p) { return _mm512_loadu_ps(p); }
LANES_INLINE void lanes_store(float *p, lanes v) { _mm512_storeu_ps(p, v); }
LANES_INLINE lanes lanes_set(float v) { return _mm512_set1_ps(v); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return _mm512_add_ps(a, b); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
LANES_INLINE lanes lanes_div(lanes a, lanes b) { return _mm512_div_ps(a, b); }
LANES_INLINE lanes lanes_min(lanes a, lanes b) { return _mm512_min_ps(a, b); }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return _mm512_max_ps(a, b); }
/* lanes_sum: the sum of all lanes, upper half onto lower half, in every width. */
LANES_INLINE float lanes_sum(lanes v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
/* 2^n for whole n from -126 to 127, held as float. */
LANES_INLINE lanes lanes_power(lanes n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { LANES = 8 };
typedef __m256 lanes;
LANES_INLINE lanes lanes_load(const float *p) { return _mm256_loadu_ps(p); }
LANES_INLINE void lanes_store(float *p, lanes v) { _mm256_storeu_ps(p, v); }
LANES_INLINE lanes lanes_set(float v) { return _mm256_set1_ps(v); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm256_fmadd_ps(a, b, c); }
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return _mm256_add_ps(a, b); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return _mm256_mul_ps(a, b); }
LANES_INLINE lanes lanes_div(lanes a, lanes b) { return _mm256_div_ps(a, b); }
LANES_INLINE lanes lanes_min(lanes a, lanes b) { return _mm256_min_ps(a, b); }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return _mm256_max_ps(a, b); }
LANES_INLINE float lanes_sum(lanes v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
LANES_INLINE lanes lanes_power(lanes n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
#elif defined(__ARM_NEON) && defined(LANES_NEON)
#include <arm_neon.h>
enum { LANES = 4 };
typedef float32x4_t lanes;
LANES_INLINE lanes lanes_load(const float *p) { return vld1q_f32(p); }
LANES_INLINE void lanes_store(float *p, lanes v) { vst1q_f32(p, v); }
LANES_INLINE lanes lanes_set(float v) { return vdupq_n_f32(v); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return vfmaq_f32(c, a, b); }
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return vaddq_f32(a, b); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return vmulq_f32(a, b); }
LANES_INLINE lanes lanes_div(lanes a, lanes b) { return vdivq_f32(a, b); }
/* The second operand where one is NaN, as on x86. */
LANES_INLINE lanes lanes_min(lanes a, lanes b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
LANES_INLINE float lanes_sum(lanes v) {
  const float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }
LANES_INLINE lanes lanes_power(lanes n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
}
#else
enum { LANES = 1 };
typedef float lanes;
LANES_INLINE lanes lanes_load(const float *p) { return *p; }
LANES_INLINE void lanes_store(float *p, lanes v) { *p = v; }
LANES_INLINE lanes lanes_set(float v) { return v; }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return fmaf(a, b, c); }
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return a + b; }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return a * b; }
LANES_INLINE lanes lanes_div(lanes a, lanes b) { return a / b; }
LANES_INLINE lanes lanes_min(lanes a, lanes b) { return a < b ? a : b; }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return a > b ? a : b; }
LANES_INLINE float lanes_sum(lanes v) { return v; }
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
  uint16_t half;
  memcpy(&half, p, sizeof half);
  return quant_f16_to_f32(half);
}
/* NaN has no integer: its power is of no account, since what it multiplies is NaN too. */
LANES_INLINE lanes lanes_power(lanes n) { return quant_bits_to_f32((uint32_t)((n == n ? (int32_t)n : 0) + 127) << 23); }
#endif

/* The first `count` (fewer than LANES) elements, the other lanes zero. */
LANES_INLINE lanes lanes_load_part(const float *p, uint32_t count) {
  float part[LANES] = {0};
  memcpy(part, p, count * sizeof(float));
  return lanes_load(part);
}

LANES_INLINE void lanes_store_part(float *p, lanes v, uint32_t count) {
  float part[LANES];
  lanes_store(part, v);
  memcpy(p, part, count * sizeof(float));
}

/*
 * e^x to within 2 units in the last place; arguments are held between -87.3 and 88, so the result is normal and finite. NaN stays NaN.
 * x = n ln 2 + r with ln 2 in two parts, e^r by its series to the seventh power (|r| <= 0.35).
 */
LANES_INLINE lanes lanes_exp(lanes x) {
  const lanes shift = lanes_set(12582912.0f); /* 1.5 * 2^23: adding and taking it away rounds to whole numbers */
  const lanes bounded = lanes_min(lanes_set(88.0f), lanes_max(lanes_set(-87.3f), x));
  const lanes n = lanes_add(lanes_fma(bounded, lanes_set(1.44269504f), shift), lanes_set(-12582912.0f));
  const lanes r = lanes_fma(n, lanes_set(-1.42860677e-6f), lanes_fma(n, lanes_set(-0.693145752f), bounded));
  lanes p = lanes_set(1.0f / 5040);
  p = lanes_fma(p, r, lanes_set(1.0f / 720));
  p = lanes_fma(p, r, lanes_set(1.0f / 120));
  p = lanes_fma(p, r, lanes_set(1.0f / 24));
  p = lanes_fma(p, r, lanes_set(1.0f / 6));
  p = lanes_fma(p, r, lanes_set(0.5f));
  p = lanes_fma(p, r, lanes_set(1.0f));
  p = lanes_fma(p, r, lanes_set(1.0f));
  return lanes_mul(p, lanes_power(n));
}

/* 1 / (1 + e^-x) */
LANES_INLINE lanes lanes_sigmoid(lanes x) {
  return lanes_div(lanes_set(1.0f), lanes_add(lanes_set(1.0f), lanes_exp(lanes_mul(lanes_set(-1.0f), x))));
}

/*
 * Dot product with the same bits at any width: element i goes to partial sum i mod 16, fused; then halves onto halves; the tail last.
 */
LANES_INLINE float lanes_dot(const float *a, const float *b, uint32_t n) {
  enum { PARTS = 16 / LANES };
  lanes part[PARTS];
#pragma GCC unroll 16
  for (int j = 0; j < PARTS; j++) {
    part[j] = lanes_set(0);
  }
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < PARTS; j++) {
      part[j] = lanes_fma(lanes_load(a + i + j * LANES), lanes_load(b + i + j * LANES), part[j]);
    }
  }
  for (int half = PARTS / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int j = 0; j < half; j++) {
      part[j] = lanes_add(part[j], part[j + half]);
    }
  }
  float sum = lanes_sum(part[0]);
  for (; i < n; i++) {
    sum = fmaf(a[i], b[i], sum);
  }
  return sum;
}

#endif
