/*
 * neon_i8mm.c – tiles of eight rows as four pairs. smmla multiplies two vectors of two rows by eight columns each and adds the four dot
 * products: two activation rows against two weight rows, activation rows in the halves of the result. Few activation rows go the way of
 * neon_dotprod.c: half of such a product would be thrown away.
 */
#include "cpu/kernels/matmul_q8/gemv_neon.h"

enum { ROW_PAIRS = TILE_ROWS / 2, X_PAIRS = 2 };

NEON_INLINE uint8x16_t zip_low(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
NEON_INLINE uint8x16_t zip_high(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}

/* The first eight columns of all pairs of rows, then the second eight. */
NEON_INLINE void arrange(uint8x16_t v[8]) {
  uint8x16_t out[8];
#pragma GCC unroll 4
  for (int pair = 0; pair < ROW_PAIRS; pair++) {
    out[pair] = zip_low(v[2 * pair], v[2 * pair + 1]);
    out[ROW_PAIRS + pair] = zip_high(v[2 * pair], v[2 * pair + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    v[i] = out[i];
  }
}

/* Of two activation rows and eight weight rows; each vector is (row 0 of x: two weight rows, row 1 of x: the same two). */
typedef struct pair_sums {
  int32x4_t of[ROW_PAIRS];
} pair_sums;

/* Up to four activation rows; where there are fewer, the last is repeated and its result is written again. */
typedef struct x_rows {
  const int8_t *codes[2 * X_PAIRS];
  uint32_t index[2 * X_PAIRS], token[2 * X_PAIRS];
} x_rows;

NEON_INLINE x_rows find_rows(const q8_multiply *m, uint32_t at, uint32_t first, uint32_t pairs) {
  x_rows x;
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 2 * pairs; j++) {
    x.index[j] = at + j < m->count ? at + j : m->count - 1;
    x.token[j] = m->tokens[x.index[j]];
    x.codes[j] = m->x->codes + x.token[j] * m->x->code_stride + first;
  }
  return x;
}

NEON_INLINE void clear(pair_sums *sum, uint32_t pairs) {
#pragma GCC unroll 2
  for (uint32_t j = 0; j < pairs; j++) {
#pragma GCC unroll 4
    for (int p = 0; p < ROW_PAIRS; p++) {
      sum[j].of[p] = vdupq_n_s32(0);
    }
  }
}

/* Sixteen columns of the tile times those of `pairs` pairs of activation rows. */
NEON_INLINE void multiply_group(const int8_t *codes, const x_rows *x, size_t column, uint32_t pairs, pair_sums *sum) {
#pragma GCC unroll 2
  for (uint32_t j = 0; j < pairs; j++) {
    const uint8x16_t x0 = vreinterpretq_u8_s8(vld1q_s8(x->codes[2 * j] + column));
    const uint8x16_t x1 = vreinterpretq_u8_s8(vld1q_s8(x->codes[2 * j + 1] + column));
    const int8x16_t low = as_signed(zip_low(x0, x1));
    const int8x16_t high = as_signed(zip_high(x0, x1));
#pragma GCC unroll 4
    for (int p = 0; p < ROW_PAIRS; p++) {
      sum[j].of[p] = vmmlaq_s32(sum[j].of[p], low, vld1q_s8(codes + 16 * p));
      sum[j].of[p] = vmmlaq_s32(sum[j].of[p], high, vld1q_s8(codes + 16 * (ROW_PAIRS + p)));
    }
  }
}

NEON_INLINE int32x4_t join_low(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
NEON_INLINE int32x4_t join_high(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

/* The sums of one activation row of a pair: side 0 or 1. */
NEON_INLINE sums8 take_side(const pair_sums *s, uint32_t side) {
  return side == 0 ? (sums8){join_low(s->of[0], s->of[1]), join_low(s->of[2], s->of[3])}
                   : (sums8){join_high(s->of[0], s->of[1]), join_high(s->of[2], s->of[3])};
}

/* Activation rows from m->tokens[at] on against the blocks of 32 of a tile. */
NEON_INLINE void blocks_of(const tile *t, const q8_multiply *m, uint32_t at, uint32_t pairs, uint32_t first, uint32_t blocks) {
  const x_rows x = find_rows(m, at, first, pairs);
  const float *scales[2 * X_PAIRS];
  floats8 y[2 * X_PAIRS];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 2 * pairs; j++) {
    scales[j] = m->x->scales + x.token[j] * m->x->scale_stride + first / 32;
    y[j] = load_floats(m->ret + (size_t)x.index[j] * TILE_ROWS);
  }
  for (uint32_t b = 0; b < blocks; b++) {
    pair_sums sum[X_PAIRS];
    clear(sum, pairs);
    multiply_group(t->codes[2 * b], &x, 32 * b, pairs, sum);
    multiply_group(t->codes[2 * b + 1], &x, 32 * b + 16, pairs, sum);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 2 * pairs; j++) {
      const sums8 side = take_side(&sum[j / 2], j % 2);
      y[j].low = add_scaled(y[j].low, vld1q_f32(t->d[b]), scales[j][b], side.low);
      y[j].high = add_scaled(y[j].high, vld1q_f32(t->d[b] + 4), scales[j][b], side.high);
    }
  }
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 2 * pairs; j++) {
    store_floats(m->ret + (size_t)x.index[j] * TILE_ROWS, y[j]);
  }
}

/* The integer scales of a pair of weight rows, once for each activation row. */
NEON_INLINE void pair_scales(const int32_t *scales, int32x4_t ret[ROW_PAIRS]) {
#pragma GCC unroll 4
  for (int p = 0; p < ROW_PAIRS; p++) {
    const int32x2_t two = vld1_s32(scales + 2 * p);
    ret[p] = vcombine_s32(two, two);
  }
}

/* Activation rows against a super-block with an integer scale per `per_scale` columns. */
NEON_INLINE void super_block_of(const tile *t, const q8_multiply *m, uint32_t at, uint32_t pairs, uint32_t first, uint32_t per_scale,
                                int has_minima) {
  const x_rows x = find_rows(m, at, first, pairs);
  pair_sums total[X_PAIRS];
  clear(total, pairs);
  for (uint32_t s = 0; s < Q8_CHUNK / per_scale; s++) {
    pair_sums sum[X_PAIRS];
    int32x4_t scales[ROW_PAIRS];
    clear(sum, pairs);
#pragma GCC unroll 2
    for (uint32_t half = 0; half < per_scale / Q8_SUM; half++) {
      const uint32_t group = s * (per_scale / Q8_SUM) + half;
      multiply_group(t->codes[group], &x, (size_t)group * Q8_SUM, pairs, sum);
    }
    pair_scales(t->scales[s], scales);
#pragma GCC unroll 2
    for (uint32_t j = 0; j < pairs; j++) {
#pragma GCC unroll 4
      for (int p = 0; p < ROW_PAIRS; p++) {
        total[j].of[p] = vmlaq_s32(total[j].of[p], sum[j].of[p], scales[p]);
      }
    }
  }
  floats8 y[2 * X_PAIRS];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 2 * pairs; j++) { /* all before any is written: an index may be there twice */
    const float scale = m->x->scales[x.token[j] * m->x->scale_stride + first / Q8_CHUNK];
    const int16_t *sums = has_minima ? m->x->sums + x.token[j] * m->x->sum_stride + first / Q8_SUM : NULL;
    y[j] = add_super_block(&t->heads, load_floats(m->ret + (size_t)x.index[j] * TILE_ROWS), take_side(&total[j / 2], j % 2), scale, sums);
  }
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 2 * pairs; j++) {
    store_floats(m->ret + (size_t)x.index[j] * TILE_ROWS, y[j]);
  }
}

/* Two pairs at a time, so that a tile's vector is loaded once for two products; the last may be one pair. */
#define BY_PAIRS(call) \
  do { \
    uint32_t at = 0; \
    for (; at + 2 < m->count; at += 2 * X_PAIRS) { \
      call(X_PAIRS); \
    } \
    if (at < m->count) { \
      call(1); \
    } \
  } while (0)

static void multiply_blocks(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
#define CALL(pairs) blocks_of(t, m, at, pairs, first, blocks)
  BY_PAIRS(CALL);
#undef CALL
}

static void multiply_k(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(pairs) super_block_of(t, m, at, pairs, first, 32, 1)
  BY_PAIRS(CALL);
#undef CALL
}

static void multiply_q6(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks) {
  (void)blocks;
#define CALL(pairs) super_block_of(t, m, at, pairs, first, 16, 0)
  BY_PAIRS(CALL);
#undef CALL
}

VARIANTS(neon_i8mm)
