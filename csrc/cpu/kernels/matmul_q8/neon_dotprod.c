/*
 * neon_dotprod.c – tiles of eight rows as two groups of four. A column quad (four neighbouring columns) of four rows is one vector; it is
 * multiplied by one quad of activations, taken from a lane, and sums never cross lanes.
 */
#include "cpu/kernels/matmul_q8/gemv_neon.h"

/* Quad by quad, rows 0-3 then 4-7. */
NEON_INLINE void arrange(uint8x16_t v[8]) {
  transpose_words(&v[0], &v[1], &v[2], &v[3]);
  transpose_words(&v[4], &v[5], &v[6], &v[7]);
  const uint8x16_t in[8] = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    v[i] = in[i / 2 + i % 2 * 4];
  }
}

/* Activation rows that are worked on together, so that a tile's vector is loaded once for four products. */
enum { TOGETHER = 4 };

/* Sixteen columns of the tile times those of `n` activation rows, `column` from x on. */
NEON_INLINE void multiply_group(const int8_t *codes, const int8_t *const *x, size_t column, uint32_t n, sums8 *sum) {
  int8x16_t activations[TOGETHER];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    activations[j] = vld1q_s8(x[j] + column);
  }
#define QUAD(quad) \
  do { \
    const int8x16_t low = vld1q_s8(codes + 32 * (quad)); \
    const int8x16_t high = vld1q_s8(codes + 32 * (quad) + 16); \
    _Pragma("GCC unroll 4") for (uint32_t j = 0; j < n; j++) { \
      sum[j].low = vdotq_laneq_s32(sum[j].low, low, activations[j], quad); \
      sum[j].high = vdotq_laneq_s32(sum[j].high, high, activations[j], quad); \
    } \
  } while (0)
  QUAD(0);
  QUAD(1);
  QUAD(2);
  QUAD(3);
#undef QUAD
}

NEON_INLINE void clear(sums8 *sum, uint32_t n) {
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    sum[j] = (sums8){vdupq_n_s32(0), vdupq_n_s32(0)};
  }
}

/* `n` activation rows from m->tokens[at] on against the blocks of 32 of a tile. */
NEON_INLINE void blocks_of(const tile *t, const q8_multiply *m, uint32_t at, uint32_t n, uint32_t first, uint32_t blocks) {
  const int8_t *x[TOGETHER];
  const float *scales[TOGETHER];
  floats8 y[TOGETHER];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t token = m->tokens[at + j];
    x[j] = m->x->codes + token * m->x->code_stride + first;
    scales[j] = m->x->scales + token * m->x->scale_stride + first / 32;
    y[j] = load_floats(m->ret + (size_t)(at + j) * TILE_ROWS);
  }
  for (uint32_t b = 0; b < blocks; b++) {
    sums8 sum[TOGETHER];
    clear(sum, n);
    multiply_group(t->codes[2 * b], x, 32 * b, n, sum);
    multiply_group(t->codes[2 * b + 1], x, 32 * b + 16, n, sum);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < n; j++) {
      y[j].low = add_scaled(y[j].low, vld1q_f32(t->d[b]), scales[j][b], sum[j].low);
      y[j].high = add_scaled(y[j].high, vld1q_f32(t->d[b] + 4), scales[j][b], sum[j].high);
    }
  }
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    store_floats(m->ret + (size_t)(at + j) * TILE_ROWS, y[j]);
  }
}

/* `n` activation rows against a super-block with an integer scale per `per_scale` columns. */
NEON_INLINE void super_block_of(const tile *t, const q8_multiply *m, uint32_t at, uint32_t n, uint32_t first, uint32_t per_scale,
                                int has_minima) {
  const int8_t *x[TOGETHER];
  sums8 total[TOGETHER];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    x[j] = m->x->codes + m->tokens[at + j] * m->x->code_stride + first;
  }
  clear(total, n);
  for (uint32_t s = 0; s < Q8_CHUNK / per_scale; s++) {
    sums8 sum[TOGETHER];
    clear(sum, n);
#pragma GCC unroll 2
    for (uint32_t half = 0; half < per_scale / Q8_SUM; half++) {
      const uint32_t group = s * (per_scale / Q8_SUM) + half;
      multiply_group(t->codes[group], x, (size_t)group * Q8_SUM, n, sum);
    }
    const int32x4_t low = vld1q_s32(t->scales[s]);
    const int32x4_t high = vld1q_s32(t->scales[s] + 4);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < n; j++) {
      total[j] = (sums8){vmlaq_s32(total[j].low, sum[j].low, low), vmlaq_s32(total[j].high, sum[j].high, high)};
    }
  }
#pragma GCC unroll 4
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t token = m->tokens[at + j];
    const float scale = m->x->scales[token * m->x->scale_stride + first / Q8_CHUNK];
    const int16_t *sums = has_minima ? m->x->sums + token * m->x->sum_stride + first / Q8_SUM : NULL;
    float *ret = m->ret + (size_t)(at + j) * TILE_ROWS;
    store_floats(ret, add_super_block(&t->heads, load_floats(ret), total[j], scale, sums));
  }
}

#define BY_FOUR(call) \
  do { \
    uint32_t at = 0; \
    for (; at + TOGETHER <= m->count; at += TOGETHER) { \
      call(TOGETHER); \
    } \
    switch (m->count - at) { \
      case 3: call(3); break; \
      case 2: call(2); break; \
      case 1: call(1); break; \
      default: break; \
    } \
  } while (0)

static void multiply_blocks(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
#define CALL(n) blocks_of(t, m, at, n, first, blocks)
  BY_FOUR(CALL);
#undef CALL
}

static void multiply_k(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(n) super_block_of(t, m, at, n, first, 32, 1)
  BY_FOUR(CALL);
#undef CALL
}

static void multiply_q6(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(n) super_block_of(t, m, at, n, first, 16, 0)
  BY_FOUR(CALL);
#undef CALL
}

VARIANTS(neon_dotprod)
