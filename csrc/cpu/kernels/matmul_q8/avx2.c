/*
 * avx2.c – tiles of eight rows. vpmaddubsw needs one unsigned side and saturates at 16 bits: where codes are signed the sign moves to the
 * activations (|w| * (x with w's sign) stays below 2^15 for pairs, as |w| <= 128 and |x| <= 127); where they are unsigned and small,
 * several products are added before they are widened (2 * 127 * 15 * 8, * 31 * 4 and * 63 * 2 all stay below 2^15).
 */
#include "cpu/kernels/matmul_q8/unpack_avx2.h"

enum { ROWS = 8 };

typedef struct tile {
  _Alignas(64) uint8_t codes[QUADS][ROWS * 4];
  _Alignas(64) int32_t scales[GROUPS][ROWS];
  _Alignas(64) int32_t minima[GROUPS / 2][ROWS];
  _Alignas(64) float d[Q8_CHUNK / 32][ROWS];
  _Alignas(64) float dmin[ROWS];
} tile;

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load_tile(const void *p) { return _mm256_load_si256((const __m256i *)p); }

INLINE __m256i broadcast4(const int8_t *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

INLINE __m256i broadcast_pair(const int16_t *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

/* `n` activation rows against the blocks of 32 of a tile; up to `run` products are added in 16 bits. */
INLINE void multiply_blocks(const tile *t, const q8_multiply *m, uint32_t at, uint32_t n, uint32_t first, uint32_t blocks, uint32_t run) {
  const __m256i ones = _mm256_set1_epi16(1);
  const int8_t *x[4];
  const float *scales[4];
  __m256 sum[4];
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t token = m->tokens[at + j];
    x[j] = m->x->codes + token * m->x->code_stride + first;
    scales[j] = m->x->scales + token * m->x->scale_stride + first / 32;
    sum[j] = _mm256_loadu_ps(m->ret + (size_t)(at + j) * ROWS);
  }
  for (uint32_t b = 0; b < blocks; b++) {
    __m256i total[4];
    __m256i part[4];
#pragma GCC unroll 8
    for (uint32_t q = 0; q < 8; q++) {
      const __m256i w = load_tile(t->codes[b * 8 + q]);
      const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
      for (uint32_t j = 0; j < n; j++) {
        const __m256i signed_x = _mm256_sign_epi8(broadcast4(x[j] + b * 32 + q * 4), w);
        const __m256i product = _mm256_maddubs_epi16(magnitude, signed_x);
        part[j] = q % run == 0 ? product : _mm256_add_epi16(part[j], product);
        if (q % run == run - 1) {
          const __m256i wide = _mm256_madd_epi16(part[j], ones);
          total[j] = q < run ? wide : _mm256_add_epi32(total[j], wide);
        }
      }
    }
    const __m256 d = _mm256_load_ps(t->d[b]);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < n; j++) {
      const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(scales[j][b]));
      sum[j] = _mm256_add_ps(sum[j], _mm256_mul_ps(scale, _mm256_cvtepi32_ps(total[j])));
    }
  }
  for (uint32_t j = 0; j < n; j++) {
    _mm256_storeu_ps(m->ret + (size_t)(at + j) * ROWS, sum[j]);
  }
}

/*
 * `n` activation rows against a super-block: `per_scale` quads share an integer scale, `run` of them are added in 16 bits. The minima are
 * Q4_K's and Q5_K's own; for Q6_K they are the scales themselves, since its codes are stored 32 too high.
 */
INLINE void multiply_super_block(const tile *t, const q8_multiply *m, uint32_t at, uint32_t n, uint32_t first, uint32_t per_scale, uint32_t run,
                                 int is_q6) {
  __m256i total[4];
  __m256i minimum[4];
  const int8_t *x[4];
  const int16_t *sums[4];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t token = m->tokens[at + j];
    x[j] = m->x->codes + token * m->x->code_stride + first;
    sums[j] = m->x->sums + token * m->x->sum_stride + first / Q8_SUM;
    total[j] = _mm256_setzero_si256();
    minimum[j] = _mm256_setzero_si256();
  }
  for (uint32_t g = 0; g < QUADS / per_scale; g++) {
    const __m256i scale = load_tile(t->scales[g]);
    __m256i part[4];
#pragma GCC unroll 8
    for (uint32_t q = 0; q < per_scale; q++) {
      const __m256i w = load_tile(t->codes[g * per_scale + q]);
#pragma GCC unroll 4
      for (uint32_t j = 0; j < n; j++) {
        const __m256i product = _mm256_maddubs_epi16(w, broadcast4(x[j] + (g * per_scale + q) * 4));
        part[j] = q % run == 0 ? product : _mm256_add_epi16(part[j], product);
        if (q % run == run - 1) {
          total[j] = _mm256_add_epi32(total[j], _mm256_madd_epi16(part[j], scale));
        }
      }
    }
  }
#pragma GCC unroll 8
  for (uint32_t g = 0; g < GROUPS / 2; g++) {
    const __m256i pair = load_tile(t->minima[g]);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < n; j++) {
      minimum[j] = _mm256_add_epi32(minimum[j], _mm256_madd_epi16(pair, broadcast_pair(sums[j] + 2 * g)));
    }
  }
  const __m256 d = _mm256_load_ps(t->d[0]);
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    const __m256 scale = _mm256_set1_ps(m->x->scales[m->tokens[at + j] * m->x->scale_stride + first / Q8_CHUNK]);
    float *ret = m->ret + (size_t)(at + j) * ROWS;
    const __m256i whole = is_q6 ? _mm256_sub_epi32(total[j], _mm256_slli_epi32(minimum[j], 5)) : total[j];
    __m256 sum = _mm256_add_ps(_mm256_loadu_ps(ret), _mm256_mul_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(whole)));
    if (!is_q6) {
      const __m256 dmin = _mm256_mul_ps(_mm256_load_ps(t->dmin), scale);
      sum = _mm256_sub_ps(sum, _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(minimum[j])));
    }
    _mm256_storeu_ps(ret, sum);
  }
}

/* Four activation rows at a time, so that a tile's vector is loaded once for four products. */
#define BY_FOUR(call) \
  do { \
    uint32_t at = 0; \
    for (; at + 4 <= m->count; at += 4) { \
      call(4); \
    } \
    switch (m->count - at) { \
      case 3: call(3); break; \
      case 2: call(2); break; \
      case 1: call(1); break; \
      default: break; \
    } \
  } while (0)

static void blocks_run1(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
#define CALL(n) multiply_blocks(t, m, at, n, first, blocks, 1)
  BY_FOUR(CALL);
#undef CALL
}

static void blocks_run8(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
#define CALL(n) multiply_blocks(t, m, at, n, first, blocks, 8)
  BY_FOUR(CALL);
#undef CALL
}

static void super_block_q4(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(n) multiply_super_block(t, m, at, n, first, 8, 8, 0)
  BY_FOUR(CALL);
#undef CALL
}

static void super_block_q5(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(n) multiply_super_block(t, m, at, n, first, 8, 4, 0)
  BY_FOUR(CALL);
#undef CALL
}

static void super_block_q6(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(n) multiply_super_block(t, m, at, n, first, 4, 2, 1)
  BY_FOUR(CALL);
#undef CALL
}

typedef void (*unpack_fn)(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t);
typedef void (*multiply_fn)(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks);

INLINE void multiply(const q8_multiply *m, unpack_fn unpack, multiply_fn multiply_tile, size_t block_bytes, uint32_t block) {
  tile t;
  const tile_part part = {&t.codes[0][0], &t.scales[0][0], &t.minima[0][0], &t.d[0][0], t.dmin, ROWS, 0};
  memset(m->ret, 0, (size_t)m->count * ROWS * sizeof(float));
  for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
    const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
    for (uint32_t i = 0; i < ROWS; i++) {
      prefetch_share(m->rows[i], m->ahead, first / block * block_bytes, elements / block * block_bytes);
    }
    unpack(m->rows, first, elements / 32, &part);
    multiply_tile(&t, m, first, elements / 32);
  }
}

#define VARIANT(format, multiply_tile, block_bytes, block) \
  void matmul_q8_##format##_avx2(const q8_multiply *m) { \
    multiply(m, unpack_##format, multiply_tile, (block_bytes), (block)); \
  }
VARIANT(Q8_0, blocks_run1, 34, 32)
VARIANT(Q4_0, blocks_run8, 18, 32)
VARIANT(IQ4_NL, blocks_run1, 18, 32)
VARIANT(MXFP4, blocks_run8, 17, 32)
VARIANT(IQ4_XS, blocks_run1, 136, 256)
VARIANT(Q4_K, super_block_q4, 144, 256)
VARIANT(Q5_K, super_block_q5, 176, 256)
VARIANT(Q6_K, super_block_q6, 210, 256)
