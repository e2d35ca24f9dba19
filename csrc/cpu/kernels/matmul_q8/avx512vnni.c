/*
 * avx512vnni.c – tiles of sixteen rows. vpdpbusd adds four products of unsigned and signed bytes to a word of 32 bits and cannot saturate:
 * the unsigned side is the tile's. Signed codes stand 128 too high in it, Q6_K's stand 32 too high as in the file; the sums of the
 * activations make that good, as what a sum begins with.
 */
#include "cpu/kernels/matmul_q8/tile_avx512.h"

/* Activation rows that are worked on together: a tile's vector is loaded once for all, and their sums hide vpdpbusd's latency. */
enum { TOGETHER = 8 };

/* -zero * Σ x of every block of 32, in the first eight words. */
INLINE void begin_blocks(const int16_t *sums, uint32_t blocks, short zero, int32_t *ret) {
  const __m256i pairs = load_part(sums, blocks * 2 * sizeof *sums);
  _mm256_storeu_si256((__m256i *)ret, _mm256_madd_epi16(pairs, _mm256_set1_epi16((short)-zero)));
}

/* -32 * Σ x of every group of 16. */
INLINE void begin_groups(const int16_t *sums, int32_t *ret) {
  const __m512i words = _mm512_cvtepi16_epi32(load256(sums));
  _mm512_storeu_si512(ret, _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(words, 5)));
}

/* What has been stored is read back by broadcasting loads, which cost no more than loads; see tables_are_written() of gemv_q8/gemv_x86.h. */
INLINE void begins_are_written(const void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

/* Fetches while it works on the first activation rows. `n` activation rows against the blocks of 32 of a tile whose codes stand 128 too high. */
INLINE void multiply_blocks(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t at, const uint32_t n, uint32_t first,
                            uint32_t blocks) {
  _Alignas(64) int32_t begin[TOGETHER][BLOCKS];
  _Alignas(64) float scales[TOGETHER][BLOCKS];
  const int8_t *x[TOGETHER];
  __m512 y[TOGETHER];
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t token = m->tokens[at + j];
    x[j] = m->x->codes + token * m->x->code_stride + first;
    y[j] = _mm512_loadu_ps(m->ret + (size_t)(at + j) * ROWS);
    begin_blocks(m->x->sums + token * m->x->sum_stride + first / Q8_SUM, blocks, 128, begin[j]);
    const __m256i part = load_part(m->x->scales + token * m->x->scale_stride + first / 32, blocks * sizeof(float));
    _mm256_store_si256((__m256i *)scales[j], part);
  }
  begins_are_written(begin);
  begins_are_written(scales);
  for (uint32_t b = 0; b < blocks; b++) {
    __m512i sum[TOGETHER];
    if (at == 0) {
      fetch_part(fetch, b, blocks);
    }
#pragma GCC unroll 8
    for (uint32_t j = 0; j < n; j++) {
      sum[j] = _mm512_set1_epi32(begin[j][b]);
    }
#pragma GCC unroll 8
    for (uint32_t q = 0; q < 8; q++) {
      const __m512i w = load512(t->codes[b * 8 + q]);
#pragma GCC unroll 8
      for (uint32_t j = 0; j < n; j++) {
        sum[j] = _mm512_dpbusd_epi32(sum[j], w, broadcast512(x[j] + b * 32 + q * 4));
      }
    }
    const __m512 d = _mm512_load_ps(t->d[b]);
#pragma GCC unroll 8
    for (uint32_t j = 0; j < n; j++) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(scales[j][b]));
      y[j] = _mm512_add_ps(y[j], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum[j])));
    }
  }
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    _mm512_storeu_ps(m->ret + (size_t)(at + j) * ROWS, y[j]);
  }
}

/*
 * Super-blocks: `per_scale` quads share an integer scale, and the sums of `run` quads are multiplied by it at a time. Where such a sum fits
 * in 16 bits (Q4_K: 16 * 127 * 15 < 2^15), one vpdpwssd multiplies and adds, since the upper half of a scale is zero; elsewhere vpmulld
 * has to, which is twice as slow. |Σ| < 256 * 127 * 63 * 128 < 2^31.
 */
typedef struct super_format {
  uint32_t per_scale, run;
  int is_narrow; /* the sums of a run fit in 16 bits */
  int has_minima; /* else codes stand 32 too high */
} super_format;

INLINE __m512i add_scaled(__m512i total, __m512i sum, __m512i scale, int is_narrow) {
  return is_narrow ? _mm512_dpwssd_epi32(total, sum, scale) : _mm512_add_epi32(total, _mm512_mullo_epi32(sum, scale));
}

/* ret[j] = Σ scale Σ w·x over the chunk, for activation codes x[j]; begin[n][GROUPS]. */
INLINE void sum_super_block(const tile *t, const super_format f, const tile_fetch *fetch, const int8_t *const *x, const int32_t *begin,
                            const uint32_t n, __m512i *ret) {
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    ret[j] = _mm512_setzero_si512();
  }
  for (uint32_t g = 0; g < QUADS / f.per_scale; g++) {
    const __m512i scale = load_scales(t, g);
    if (fetch != NULL) {
      fetch_part(fetch, g, QUADS / f.per_scale);
    }
#pragma GCC unroll 2
    for (uint32_t r = 0; r < f.per_scale; r += f.run) {
      __m512i sum[TOGETHER];
#pragma GCC unroll 8
      for (uint32_t j = 0; j < n; j++) {
        sum[j] = f.has_minima ? _mm512_setzero_si512() : _mm512_set1_epi32(begin[j * GROUPS + g]);
      }
#pragma GCC unroll 8
      for (uint32_t q = 0; q < f.run; q++) {
        const __m512i w = load512(t->codes[g * f.per_scale + r + q]);
#pragma GCC unroll 8
        for (uint32_t j = 0; j < n; j++) {
          sum[j] = _mm512_dpbusd_epi32(sum[j], w, broadcast512(x[j] + (g * f.per_scale + r + q) * 4));
        }
      }
#pragma GCC unroll 8
      for (uint32_t j = 0; j < n; j++) {
        ret[j] = add_scaled(ret[j], sum[j], scale, f.is_narrow);
      }
    }
  }
}

/* Takes (dmin * s) * Σ min Σ x from y. */
INLINE void subtract_minima(const tile *t, const q8_multiply *m, uint32_t at, const uint32_t n, uint32_t first, const __m512 *scales, __m512 *y) {
  const int16_t *sums[TOGETHER];
  __m512i minimum[TOGETHER];
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    sums[j] = m->x->sums + m->tokens[at + j] * m->x->sum_stride + first / Q8_SUM;
    minimum[j] = _mm512_setzero_si512();
  }
#pragma GCC unroll 8
  for (uint32_t g = 0; g < GROUPS / 2; g++) {
    const __m512i pair = load512(t->minima[g]);
#pragma GCC unroll 8
    for (uint32_t j = 0; j < n; j++) {
      minimum[j] = _mm512_dpwssd_epi32(minimum[j], pair, broadcast512(sums[j] + 2 * g));
    }
  }
  const __m512 dmin = _mm512_load_ps(t->dmin);
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    y[j] = _mm512_sub_ps(y[j], _mm512_mul_ps(_mm512_mul_ps(dmin, scales[j]), _mm512_cvtepi32_ps(minimum[j])));
  }
}

INLINE void multiply_super_block(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t at, const uint32_t n, uint32_t first,
                                 const super_format f) {
  _Alignas(64) int32_t begin[TOGETHER][GROUPS];
  const int8_t *x[TOGETHER];
  __m512i total[TOGETHER];
  __m512 scales[TOGETHER];
  __m512 y[TOGETHER];
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t token = m->tokens[at + j];
    x[j] = m->x->codes + token * m->x->code_stride + first;
    if (!f.has_minima) {
      begin_groups(m->x->sums + token * m->x->sum_stride + first / Q8_SUM, begin[j]);
    }
  }
  begins_are_written(begin);
  sum_super_block(t, f, at == 0 ? fetch : NULL, x, begin[0], n, total);
  const __m512 d = _mm512_load_ps(t->d[0]);
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    scales[j] = _mm512_set1_ps(m->x->scales[m->tokens[at + j] * m->x->scale_stride + first / Q8_CHUNK]);
    const __m512 product = _mm512_mul_ps(_mm512_mul_ps(d, scales[j]), _mm512_cvtepi32_ps(total[j]));
    y[j] = _mm512_add_ps(_mm512_loadu_ps(m->ret + (size_t)(at + j) * ROWS), product);
  }
  if (f.has_minima) {
    subtract_minima(t, m, at, n, first, scales, y);
  }
#pragma GCC unroll 8
  for (uint32_t j = 0; j < n; j++) {
    _mm512_storeu_ps(m->ret + (size_t)(at + j) * ROWS, y[j]);
  }
}

/*
 * A `call` for every eight activation rows, then for four, two and one of those left over: calls for all numbers below eight would save a
 * few loads of the tile and cost twice the code.
 */
#define BY_EIGHT(call) \
  do { \
    uint32_t at = 0; \
    for (; at + 8 <= m->count; at += 8) { \
      call(8); \
    } \
    if (m->count & 4) { \
      call(4); \
      at += 4; \
    } \
    if (m->count & 2) { \
      call(2); \
      at += 2; \
    } \
    if (m->count & 1) { \
      call(1); \
    } \
  } while (0)

static void blocks_of_32(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t first, uint32_t blocks) {
#define CALL(n) multiply_blocks(t, m, fetch, at, n, first, blocks)
  BY_EIGHT(CALL);
#undef CALL
}

static void super_block_q4(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t first, uint32_t blocks) {
  const super_format f = {8, 4, 1, 1};
  (void)blocks;
#define CALL(n) multiply_super_block(t, m, fetch, at, n, first, f)
  BY_EIGHT(CALL);
#undef CALL
}

static void super_block_q5(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t first, uint32_t blocks) {
  const super_format f = {8, 8, 0, 1};
  (void)blocks;
#define CALL(n) multiply_super_block(t, m, fetch, at, n, first, f)
  BY_EIGHT(CALL);
#undef CALL
}

static void super_block_q6(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t first, uint32_t blocks) {
  const super_format f = {4, 4, 0, 0};
  (void)blocks;
#define CALL(n) multiply_super_block(t, m, fetch, at, n, first, f)
  BY_EIGHT(CALL);
#undef CALL
}

typedef void (*multiply_fn)(const tile *t, const q8_multiply *m, const tile_fetch *fetch, uint32_t first, uint32_t blocks);

INLINE void multiply(const q8_multiply *m, unpack_fn unpack, uint8_t zero, multiply_fn multiply_tile) {
  tile t;
  memset(m->ret, 0, (size_t)m->count * ROWS * sizeof(float));
  for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
    const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
    const tile_fetch fetch = fetch_of(m, first, elements);
    unpack_tile(m, unpack, zero, first, elements / 32, &t);
    multiply_tile(&t, m, &fetch, first, elements / 32);
  }
}

#define VARIANT(format, multiply_tile, zero) \
  void matmul_q8_##format##_avx512vnni(const q8_multiply *m) { \
    multiply(m, unpack_##format, (zero), multiply_tile); \
  }
VARIANT(Q8_0, blocks_of_32, 128)
VARIANT(Q4_0, blocks_of_32, 128)
VARIANT(IQ4_NL, blocks_of_32, 128)
VARIANT(MXFP4, blocks_of_32, 128)
VARIANT(IQ4_XS, blocks_of_32, 128)
VARIANT(Q4_K, super_block_q4, 0)
VARIANT(Q5_K, super_block_q5, 0)
VARIANT(Q6_K, super_block_q6, 0)
