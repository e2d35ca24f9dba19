/*
 * gemv_neon.h – eight weight rows times one activation row, and what the arm64 variants share of a tile's multiplication.
 *
 * Decode is bound by memory, and the tile's detour through the cache costs more than it saves when a tile is used once. Rows are
 * multiplied as they lie in the file, along the columns; the eight sums of a block are then brought into two vectors, so that floats are
 * as in the tile. Needs the dot product instructions.
 */
#ifndef CPU_KERNELS_MATMUL_Q8_GEMV_NEON_H
#define CPU_KERNELS_MATMUL_Q8_GEMV_NEON_H

#include <string.h>

#include "cpu/kernels/matmul_q8/unpack_neon.h"

/* Of eight rows: integer sums, or results. */
typedef struct sums8 {
  int32x4_t low, high;
} sums8;

typedef struct floats8 {
  float32x4_t low, high;
} floats8;

/* A chunk of one activation row, and where the next tile's weights begin. */
typedef struct gemv_x {
  const int8_t *codes;
  const float *scales;
  const int16_t *sums;
  const uint8_t *next;
} gemv_x;

/*
 * The next tile's share of a block is fetched while this tile's is multiplied, at most a line with each row so that the processor's queue of
 * misses never fills: eight streams are too many for its own prefetcher. A tile's rows follow each other, so its share is one run of bytes,
 * and each of a block's units fetches an equal part of it.
 */
NEON_INLINE void prefetch_line(const uint8_t *next, size_t at, size_t bytes, uint32_t units, uint32_t unit, uint32_t row) {
  const size_t lines = ((8 * bytes + 63) / 64 + units - 1) / units;
  if (row < lines) {
    __builtin_prefetch(next + 8 * at + (lines * unit + row) * 64, 0, 3);
  }
}

/* y + (d * scale) * sum, none fused. */
NEON_INLINE float32x4_t add_scaled(float32x4_t y, float32x4_t d, float scale, int32x4_t sum) {
  return vaddq_f32(y, vmulq_f32(vmulq_f32(d, vdupq_n_f32(scale)), vcvtq_f32_s32(sum)));
}

NEON_INLINE float32x4_t subtract_scaled(float32x4_t y, float32x4_t d, float scale, int32x4_t sum) {
  return vsubq_f32(y, vmulq_f32(vmulq_f32(d, vdupq_n_f32(scale)), vcvtq_f32_s32(sum)));
}

/*
 * Σ byte * Σ x over groups, for words of `heads` and as many sums of x (below 2^13 in magnitude): a sum is taken apart into 64 times its
 * upper bits and its lower six, both of which are signed bytes.
 */
NEON_INLINE int8x8_t upper_bits(int16x8_t sums) { return vshrn_n_s16(sums, 6); }
NEON_INLINE int8x8_t lower_bits(int16x8_t sums) { return vmovn_s16(vandq_s16(sums, vdupq_n_s16(63))); }

NEON_INLINE int8x16_t load_words(const uint32_t *words) { return vreinterpretq_s8_u32(vld1q_u32(words)); }

/* Σ min * Σ x of four rows. */
NEON_INLINE int32x4_t weigh_minima(const block_heads *h, int four, const int16_t *x_sums) {
  const int16x8_t sums = vpaddq_s16(vld1q_s16(x_sums), vld1q_s16(x_sums + 8)); /* of 32 */
  const int8x8_t upper = upper_bits(sums);
  const int8x8_t lower = lower_bits(sums);
  const int8x16_t first = load_words(h->minima[0] + four);
  const int8x16_t second = load_words(h->minima[1] + four);
  const int32x4_t sum = vshlq_n_s32(vdotq_lane_s32(vdotq_lane_s32(vdupq_n_s32(0), first, upper, 0), second, upper, 1), 6);
  return vdotq_lane_s32(vdotq_lane_s32(sum, first, lower, 0), second, lower, 1);
}

/* Σ scale * Σ x of four rows of Q6_K. */
NEON_INLINE int32x4_t weigh_scales(const block_heads *h, int four, const int16_t *x_sums) {
  const int16x8_t sums[2] = {vld1q_s16(x_sums), vld1q_s16(x_sums + 8)};
  const int8x16_t upper = vcombine_s8(upper_bits(sums[0]), upper_bits(sums[1]));
  const int8x16_t lower = vcombine_s8(lower_bits(sums[0]), lower_bits(sums[1]));
  const int8x16_t words[4] = {load_words(h->scales[0] + four), load_words(h->scales[1] + four), load_words(h->scales[2] + four),
                              load_words(h->scales[3] + four)};
  int32x4_t sum = vdotq_laneq_s32(vdotq_laneq_s32(vdupq_n_s32(0), words[0], upper, 0), words[1], upper, 1);
  sum = vshlq_n_s32(vdotq_laneq_s32(vdotq_laneq_s32(sum, words[2], upper, 2), words[3], upper, 3), 6);
  sum = vdotq_laneq_s32(vdotq_laneq_s32(sum, words[0], lower, 0), words[1], lower, 1);
  return vdotq_laneq_s32(vdotq_laneq_s32(sum, words[2], lower, 2), words[3], lower, 3);
}

/* A super-block's integer sums under its float scales. x_sums: NULL where the format has no minima. */
NEON_INLINE floats8 add_super_block(const block_heads *h, floats8 y, sums8 sum, float scale, const int16_t *x_sums) {
  y.low = add_scaled(y.low, vld1q_f32(h->d), scale, sum.low);
  y.high = add_scaled(y.high, vld1q_f32(h->d + 4), scale, sum.high);
  if (x_sums != NULL) {
    y.low = subtract_scaled(y.low, vld1q_f32(h->dmin), scale, weigh_minima(h, 0, x_sums));
    y.high = subtract_scaled(y.high, vld1q_f32(h->dmin + 4), scale, weigh_minima(h, 4, x_sums));
  }
  return y;
}

NEON_INLINE floats8 load_floats(const float *p) { return (floats8){vld1q_f32(p), vld1q_f32(p + 4)}; }
NEON_INLINE void store_floats(float *p, floats8 v) {
  vst1q_f32(p, v.low);
  vst1q_f32(p + 4, v.high);
}

/* Word i of a half of the result: the sum of the four words of v[i]. */
NEON_INLINE sums8 sum_rows(const int32x4_t v[8]) {
  return (sums8){vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3])), vpaddq_s32(vpaddq_s32(v[4], v[5]), vpaddq_s32(v[6], v[7]))};
}

/* ---- a scale per 32 ---- */

/* 32 codes of one row at p times 32 activations. */
typedef int32x4_t (*gemv_dot)(const uint8_t *p, int8x16_t x0, int8x16_t x1);

NEON_INLINE int32x4_t dot32(int8x16_t w0, int8x16_t w1, int8x16_t x0, int8x16_t x1) {
  return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w0, x0), w1, x1);
}

NEON_INLINE int32x4_t dot_Q8_0(const uint8_t *p, int8x16_t x0, int8x16_t x1) {
  return dot32(as_signed(vld1q_u8(p)), as_signed(vld1q_u8(p + 16)), x0, x1);
}

/* Nibbles as they are, 8 too high. */
NEON_INLINE int32x4_t dot_Q4_0(const uint8_t *p, int8x16_t x0, int8x16_t x1) {
  const uint8x16_t v = vld1q_u8(p);
  return dot32(as_signed(low_nibbles(v)), as_signed(high_nibbles(v)), x0, x1);
}

NEON_INLINE int32x4_t dot_table(const int8_t *table, const uint8_t *p, int8x16_t x0, int8x16_t x1) {
  const int8x16_t codes = vld1q_s8(table);
  const uint8x16_t v = vld1q_u8(p);
  return dot32(vqtbl1q_s8(codes, low_nibbles(v)), vqtbl1q_s8(codes, high_nibbles(v)), x0, x1);
}

NEON_INLINE int32x4_t dot_IQ4(const uint8_t *p, int8x16_t x0, int8x16_t x1) { return dot_table(TABLE_IQ4_NL, p, x0, x1); }
NEON_INLINE int32x4_t dot_MXFP4(const uint8_t *p, int8x16_t x0, int8x16_t x1) { return dot_table(TABLE_E2M1_DOUBLED, p, x0, x1); }

/* Sums of block b, whose codes begin at `at` of each row and stand `zero` too high. */
NEON_INLINE sums8 gemv_block(const uint8_t *const *rows, size_t at, size_t share, size_t share_bytes, gemv_dot dot, int zero, const gemv_x *x,
                             uint32_t b) {
  const int8x16_t x0 = vld1q_s8(x->codes + 32 * b);
  const int8x16_t x1 = vld1q_s8(x->codes + 32 * b + 16);
  int32x4_t v[8];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < 8; i++) {
    prefetch_line(x->next, share, share_bytes, 1, 0, i);
    v[i] = dot(rows[i] + at, x0, x1);
  }
  sums8 sum = sum_rows(v);
  if (zero != 0) {
    const int32x4_t high = vdupq_n_s32(zero * (x->sums[2 * b] + x->sums[2 * b + 1]));
    sum = (sums8){vsubq_s32(sum.low, high), vsubq_s32(sum.high, high)};
  }
  return sum;
}

NEON_INLINE floats8 gemv_blocks(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y, size_t scale_bytes,
                                size_t code_bytes, gemv_dot dot, gather_fn gather, int zero) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * (scale_bytes + code_bytes);
    const sums8 sum = gemv_block(rows, at + scale_bytes, at, scale_bytes + code_bytes, dot, zero, x, b);
    y.low = add_scaled(y.low, gather(rows, at), x->scales[b], sum.low);
    y.high = add_scaled(y.high, gather(rows + 4, at), x->scales[b], sum.high);
  }
  return y;
}

NEON_INLINE floats8 gemv_Q8_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  return gemv_blocks(rows, first, blocks, x, y, 2, 32, dot_Q8_0, gather_f16, 0);
}
NEON_INLINE floats8 gemv_Q4_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  return gemv_blocks(rows, first, blocks, x, y, 2, 16, dot_Q4_0, gather_f16, 8);
}
NEON_INLINE floats8 gemv_IQ4_NL(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  return gemv_blocks(rows, first, blocks, x, y, 2, 16, dot_IQ4, gather_f16, 0);
}
NEON_INLINE floats8 gemv_MXFP4(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  return gemv_blocks(rows, first, blocks, x, y, 1, 16, dot_MXFP4, gather_e8m0, 0);
}

NEON_INLINE floats8 gemv_IQ4_XS(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  const size_t at = (size_t)(first / 256) * 136;
  tile t; /* its scales alone */
  unpack_iq4_xs_scales(rows, at, &t);
  for (uint32_t b = 0; b < blocks; b++) {
    const sums8 sum = gemv_block(rows, at + 8 + 16 * b, at + 17 * b, 17, dot_IQ4, 0, x, b);
    y.low = add_scaled(y.low, vld1q_f32(t.d[b]), x->scales[b], sum.low);
    y.high = add_scaled(y.high, vld1q_f32(t.d[b] + 4), x->scales[b], sum.high);
  }
  return y;
}

/* ---- blocks of 256 ---- */

/*
 * A unit of a row's block is what one load of low bits gives (two where a group is of 32): the low nibbles under one integer scale, the
 * high nibbles under another.
 */
typedef struct unit_dots {
  int32x4_t low, high;
} unit_dots;

/* The activations of a unit's two groups; of groups of 16 the first of two vectors alone. */
typedef struct unit_x {
  int8x16_t low[2], high[2];
} unit_x;

typedef unit_dots (*gemv_unit)(const uint8_t *block, uint32_t unit, const unit_x *x);

NEON_INLINE unit_dots unit_Q4_K(const uint8_t *block, uint32_t unit, const unit_x *x) {
  const uint8x16_t v0 = vld1q_u8(block + 16 + 32 * unit);
  const uint8x16_t v1 = vld1q_u8(block + 32 + 32 * unit);
  return (unit_dots){dot32(as_signed(low_nibbles(v0)), as_signed(low_nibbles(v1)), x->low[0], x->low[1]),
                     dot32(as_signed(high_nibbles(v0)), as_signed(high_nibbles(v1)), x->high[0], x->high[1])};
}

NEON_INLINE unit_dots unit_Q5_K(const uint8_t *block, uint32_t unit, const unit_x *x) {
  const uint8x16_t bits0 = vld1q_u8(block + 16);
  const uint8x16_t bits1 = vld1q_u8(block + 32);
  const uint8x16_t v0 = vld1q_u8(block + 48 + 32 * unit);
  const uint8x16_t v1 = vld1q_u8(block + 64 + 32 * unit);
  const uint32_t low = 2 * unit;
  return (unit_dots){
      dot32(with_fifth(low_nibbles(v0), bits0, low), with_fifth(low_nibbles(v1), bits1, low), x->low[0], x->low[1]),
      dot32(with_fifth(high_nibbles(v0), bits0, low + 1), with_fifth(high_nibbles(v1), bits1, low + 1), x->high[0], x->high[1])};
}

/* Units are (half, part, side), sixteen bytes each; codes stand 32 too high. */
NEON_INLINE unit_dots unit_Q6_K(const uint8_t *block, uint32_t unit, const unit_x *x) {
  const int32x4_t zero = vdupq_n_s32(0);
  const uint32_t part = unit / 2 % 2;
  const uint8x16_t bits = vld1q_u8(block + 128 + 32 * (unit / 4) + 16 * (unit % 2));
  const uint8x16_t v = vld1q_u8(block + 16 * unit);
  return (unit_dots){vdotq_s32(zero, with_sixth(low_nibbles(v), bits, part), x->low[0]),
                     vdotq_s32(zero, with_sixth(high_nibbles(v), bits, part + 2), x->high[0])};
}

/* Where a format's units are: bytes of its block, how many units, columns of a group, what its codes stand too high by. */
typedef struct gemv_format {
  size_t block_bytes;
  uint32_t units, group;
  int zero;
} gemv_format;

NEON_INLINE unit_x load_unit_x(const int8_t *low, const int8_t *high, uint32_t group) {
  unit_x x = {{vld1q_s8(low), vdupq_n_s8(0)}, {vld1q_s8(high), vdupq_n_s8(0)}};
  if (group == 32) {
    x.low[1] = vld1q_s8(low + 16);
    x.high[1] = vld1q_s8(high + 16);
  }
  return x;
}

/*
 * One unit of all rows onto their sums; its nibbles are groups `low` and `high`. Row after row: compilers would rather load what rows and
 * units have in common all at once, for registers that are not there.
 */
NEON_INLINE void weigh_unit(const uint8_t *const *rows, size_t at, gemv_format f, gemv_unit dots, uint32_t unit, const block_heads *h,
                            uint32_t low, uint32_t high, const gemv_x *x, int32x4_t sum[8]) {
  const int32x4_t scales[4] = {scales_of(h, low, 0), scales_of(h, low, 4), scales_of(h, high, 0), scales_of(h, high, 4)};
  const unit_x activations = load_unit_x(x->codes + low * f.group, x->codes + high * f.group, f.group);
#define ROW(i) \
  do { \
    prefetch_line(x->next, at, f.block_bytes, f.units, unit, (i)); \
    const unit_dots d = dots(rows[i] + at, unit, &activations); \
    sum[i] = vmlaq_laneq_s32(sum[i], d.low, scales[(i) / 4], (i) % 4); \
    sum[i] = vmlaq_laneq_s32(sum[i], d.high, scales[2 + (i) / 4], (i) % 4); \
    __asm__ volatile("" : : : "memory"); \
  } while (0)
  ROW(0);
  ROW(1);
  ROW(2);
  ROW(3);
  ROW(4);
  ROW(5);
  ROW(6);
  ROW(7);
#undef ROW
}

NEON_INLINE sums8 gemv_units(const uint8_t *const *rows, size_t at, gemv_format f, gemv_unit dots, const block_heads *h, const gemv_x *x) {
  int32x4_t v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    v[i] = vdupq_n_s32(0);
  }
#pragma GCC unroll 1
  for (uint32_t unit = 0; unit < f.units; unit++) {
    const uint32_t low = f.group == 32 ? 2 * unit : unit / 4 * 8 + unit % 4;
    weigh_unit(rows, at, f, dots, unit, h, low, low + (f.group == 32 ? 1 : 4), x, v);
  }
  sums8 sum = sum_rows(v);
  if (f.zero != 0) {
    sum.low = vmlsq_n_s32(sum.low, weigh_scales(h, 0, x->sums), f.zero);
    sum.high = vmlsq_n_s32(sum.high, weigh_scales(h, 4, x->sums), f.zero);
  }
  return sum;
}

NEON_INLINE floats8 gemv_Q4_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  const size_t at = (size_t)(first / 256) * 144;
  block_heads h;
  (void)blocks;
  read_k_heads(rows, at, &h);
  return add_super_block(&h, y, gemv_units(rows, at, (gemv_format){144, 4, 32, 0}, unit_Q4_K, &h, x), x->scales[0], x->sums);
}

NEON_INLINE floats8 gemv_Q5_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  const size_t at = (size_t)(first / 256) * 176;
  block_heads h;
  (void)blocks;
  read_k_heads(rows, at, &h);
  return add_super_block(&h, y, gemv_units(rows, at, (gemv_format){176, 4, 32, 0}, unit_Q5_K, &h, x), x->scales[0], x->sums);
}

NEON_INLINE floats8 gemv_Q6_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y) {
  const size_t at = (size_t)(first / 256) * 210;
  block_heads h;
  (void)blocks;
  read_q6_heads(rows, at, &h);
  return add_super_block(&h, y, gemv_units(rows, at, (gemv_format){210, 8, 16, 32}, unit_Q6_K, &h, x), x->scales[0], NULL);
}

typedef floats8 (*gemv_fn)(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, floats8 y);

/* Eight rows times activation row `token`. */
NEON_INLINE floats8 gemv(const q8_multiply *m, uint32_t token, gemv_fn fn, uint32_t x_block) {
  floats8 y = {vdupq_n_f32(0), vdupq_n_f32(0)};
  for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
    const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
    const gemv_x x = {m->x->codes + token * m->x->code_stride + first, m->x->scales + token * m->x->scale_stride + first / x_block,
                      m->x->sums + token * m->x->sum_stride + first / Q8_SUM, m->rows[0] + m->ahead};
    y = fn(m->rows, first, elements / 32, &x, y);
  }
  return y;
}

/* ---- tiles ---- */

typedef void (*unpack_fn)(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t);
typedef void (*multiply_fn)(const tile *t, const q8_multiply *m, uint32_t first, uint32_t blocks);

/* Below this many activation rows each goes through the weights by itself: the second time they come from the cache. */
enum { GEMV_COUNT = 2 };

/* `block_bytes` of `block` columns are what the file holds. */
NEON_INLINE void multiply_rows(const q8_multiply *m, unpack_fn unpack, arrange_fn arrange, multiply_fn multiply_tile, gemv_fn fn,
                               size_t block_bytes, uint32_t block, uint32_t x_block) {
  if (m->count <= GEMV_COUNT) {
    for (uint32_t i = 0; i < m->count; i++) {
      store_floats(m->ret + (size_t)i * TILE_ROWS, gemv(m, m->tokens[i], fn, x_block));
    }
    return;
  }
  tile t;
  memset(m->ret, 0, (size_t)m->count * TILE_ROWS * sizeof(float));
  for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
    const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
    const uint8_t *next = m->rows[0] + m->ahead + TILE_ROWS * (first / block * block_bytes);
    for (size_t line = 0; line < TILE_ROWS * (elements / block * block_bytes); line += 64) {
      __builtin_prefetch(next + line, 0, 3);
    }
    unpack(m->rows, first, elements / 32, arrange, &t);
    multiply_tile(&t, m, first, elements / 32);
  }
}

/* All formats of a variant that defines arrange(), multiply_blocks(), multiply_k() and multiply_q6(). */
#define VARIANT(format, isa, multiply_tile, block_bytes, block, x_block) \
  void matmul_q8_##format##_##isa(const q8_multiply *m) { \
    multiply_rows(m, unpack_##format, arrange, multiply_tile, gemv_##format, (block_bytes), (block), (x_block)); \
  }
#define VARIANTS(isa) \
  VARIANT(Q8_0, isa, multiply_blocks, 34, 32, 32) \
  VARIANT(Q4_0, isa, multiply_blocks, 18, 32, 32) \
  VARIANT(IQ4_NL, isa, multiply_blocks, 18, 32, 32) \
  VARIANT(MXFP4, isa, multiply_blocks, 17, 32, 32) \
  VARIANT(IQ4_XS, isa, multiply_blocks, 136, 256, 32) \
  VARIANT(Q4_K, isa, multiply_k, 144, 256, 256) \
  VARIANT(Q5_K, isa, multiply_k, 176, 256, 256) \
  VARIANT(Q6_K, isa, multiply_q6, 210, 256, 256)

#endif
