/*
 * unpack_neon.h – eight weight rows of one chunk from file format to tile, for every arm64 variant.
 *
 * A tile holds sixteen columns of all rows together, as eight vectors in the order that the variant's instruction wants: its `arrange`
 * makes it from the rows' bytes as they lie in the file, before nibbles are taken apart. Codes are signed here, so nothing stands too high.
 */
#ifndef CPU_KERNELS_MATMUL_Q8_UNPACK_NEON_H
#define CPU_KERNELS_MATMUL_Q8_UNPACK_NEON_H

#include <arm_neon.h>

#include "cpu/kernels/matmul_q8/variants.h"
#include "quant/blocks.h"
#include "quant/tables.h"

#define NEON_INLINE static inline __attribute__((always_inline, unused))

enum { TILE_ROWS = 8, GROUPS = Q8_CHUNK / Q8_SUM, SUBS = Q8_CHUNK / 32 };

/* What stands beside the codes in a block of 256 of eight rows. A word is four neighbouring groups' bytes of one row. */
typedef struct block_heads {
  _Alignas(64) uint32_t scales[4][TILE_ROWS]; /* 2 in Q4_K and Q5_K, whose groups are of 32; 4 in Q6_K, signed, of 16 */
  _Alignas(64) uint32_t minima[2][TILE_ROWS];
  _Alignas(64) float d[TILE_ROWS];
  _Alignas(64) float dmin[TILE_ROWS];
} block_heads;

typedef struct tile {
  _Alignas(64) int8_t codes[GROUPS][Q8_SUM * TILE_ROWS];
  block_heads heads; /* of blocks of 256 */
  _Alignas(64) int32_t scales[GROUPS][TILE_ROWS]; /* its scales again, one by one */
  _Alignas(64) float d[SUBS][TILE_ROWS]; /* where there is a scale per 32 */
} tile;

/* In: sixteen bytes of each of the eight rows. Out: the same bytes in the tile's order. */
typedef void (*arrange_fn)(uint8x16_t v[8]);

NEON_INLINE void load_rows(const uint8_t *const *rows, size_t offset, arrange_fn arrange, uint8x16_t ret[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    ret[i] = vld1q_u8(rows[i] + offset);
  }
  arrange(ret);
}

NEON_INLINE void store_codes(tile *t, uint32_t group, int index, int8x16_t codes) { vst1q_s8(t->codes[group] + 16 * index, codes); }

/* 4 x 4 words: row i of the result holds word i of every input. */
NEON_INLINE void transpose_words(uint8x16_t *v0, uint8x16_t *v1, uint8x16_t *v2, uint8x16_t *v3) {
  const uint32x4_t in[4] = {vreinterpretq_u32_u8(*v0), vreinterpretq_u32_u8(*v1), vreinterpretq_u32_u8(*v2), vreinterpretq_u32_u8(*v3)};
  const uint64x2_t even01 = vreinterpretq_u64_u32(vtrn1q_u32(in[0], in[1]));
  const uint64x2_t odd01 = vreinterpretq_u64_u32(vtrn2q_u32(in[0], in[1]));
  const uint64x2_t even23 = vreinterpretq_u64_u32(vtrn1q_u32(in[2], in[3]));
  const uint64x2_t odd23 = vreinterpretq_u64_u32(vtrn2q_u32(in[2], in[3]));
  *v0 = vreinterpretq_u8_u64(vzip1q_u64(even01, even23));
  *v1 = vreinterpretq_u8_u64(vzip1q_u64(odd01, odd23));
  *v2 = vreinterpretq_u8_u64(vzip2q_u64(even01, even23));
  *v3 = vreinterpretq_u8_u64(vzip2q_u64(odd01, odd23));
}

/* Word i of 16 bytes at `offset` of four rows, in result i. */
NEON_INLINE void gather_words(const uint8_t *const *rows, size_t offset, uint32x4_t ret[4]) {
  uint8x16_t v[4] = {vld1q_u8(rows[0] + offset), vld1q_u8(rows[1] + offset), vld1q_u8(rows[2] + offset), vld1q_u8(rows[3] + offset)};
  transpose_words(&v[0], &v[1], &v[2], &v[3]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    ret[i] = vreinterpretq_u32_u8(v[i]);
  }
}

NEON_INLINE float32x4_t widen_f16(uint16x4_t halves) { return vcvt_f32_f16(vreinterpret_f16_u16(halves)); }

/* Scales of four rows. */
NEON_INLINE float32x4_t gather_f16(const uint8_t *const *rows, size_t offset) {
  uint16x4_t halves = vdup_n_u16(read_u16(rows[0] + offset));
  halves = vset_lane_u16(read_u16(rows[1] + offset), halves, 1);
  halves = vset_lane_u16(read_u16(rows[2] + offset), halves, 2);
  return widen_f16(vset_lane_u16(read_u16(rows[3] + offset), halves, 3));
}

/* quant_e8m0_half() of four rows. */
NEON_INLINE float32x4_t gather_e8m0(const uint8_t *const *rows, size_t offset) {
  const uint32x4_t e = {rows[0][offset], rows[1][offset], rows[2][offset], rows[3][offset]};
  const uint32x4_t subnormal = vshlq_u32(vdupq_n_u32(0x00200000u), vreinterpretq_s32_u32(e));
  const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
  return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), subnormal, normal));
}

NEON_INLINE uint8x16_t low_nibbles(uint8x16_t v) { return vandq_u8(v, vdupq_n_u8(15)); }
NEON_INLINE uint8x16_t high_nibbles(uint8x16_t v) { return vshrq_n_u8(v, 4); }
NEON_INLINE int8x16_t as_signed(uint8x16_t v) { return vreinterpretq_s8_u8(v); }

/* ---- a scale per 32 ---- */

NEON_INLINE void unpack_Q8_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * 34;
#pragma GCC unroll 2
    for (uint32_t half = 0; half < 2; half++) {
      uint8x16_t v[8];
      load_rows(rows, at + 2 + 16 * half, arrange, v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) {
        store_codes(t, 2 * b + half, i, as_signed(v[i]));
      }
    }
    vst1q_f32(t->d[b], gather_f16(rows, at));
    vst1q_f32(t->d[b] + 4, gather_f16(rows + 4, at));
  }
}

/* Of the 16 bytes at `at` the low nibbles are columns 0-15 of block b, the high ones columns 16-31; the table gives the codes. */
NEON_INLINE void unpack_nibbles(const uint8_t *const *rows, size_t at, uint32_t b, const int8_t *table, arrange_fn arrange, tile *t) {
  const int8x16_t codes = vld1q_s8(table);
  uint8x16_t v[8];
  load_rows(rows, at, arrange, v);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    store_codes(t, 2 * b, i, vqtbl1q_s8(codes, low_nibbles(v[i])));
    store_codes(t, 2 * b + 1, i, vqtbl1q_s8(codes, high_nibbles(v[i])));
  }
}

typedef float32x4_t (*gather_fn)(const uint8_t *const *rows, size_t offset);

/* Blocks of a scale and 16 bytes of nibbles. */
NEON_INLINE void unpack_blocks(const uint8_t *const *rows, uint32_t first, uint32_t blocks, size_t scale_bytes, gather_fn gather,
                               const int8_t *table, arrange_fn arrange, tile *t) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * (scale_bytes + 16);
    unpack_nibbles(rows, at + scale_bytes, b, table, arrange, t);
    vst1q_f32(t->d[b], gather(rows, at));
    vst1q_f32(t->d[b] + 4, gather(rows + 4, at));
  }
}

NEON_INLINE void unpack_Q4_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  static const int8_t table[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  unpack_blocks(rows, first, blocks, 2, gather_f16, table, arrange, t);
}

NEON_INLINE void unpack_IQ4_NL(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  unpack_blocks(rows, first, blocks, 2, gather_f16, TABLE_IQ4_NL, arrange, t);
}

NEON_INLINE void unpack_MXFP4(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  unpack_blocks(rows, first, blocks, 1, gather_e8m0, TABLE_E2M1_DOUBLED, arrange, t);
}

/* Eight bytes: d, two high bits of every scale, four low bits of every scale. */
NEON_INLINE void unpack_iq4_xs_scales(const uint8_t *const *rows, size_t at, tile *t) {
#pragma GCC unroll 2
  for (int four = 0; four < 8; four += 4) {
    uint32x4_t head = {read_u32(rows[four] + at), read_u32(rows[four + 1] + at), read_u32(rows[four + 2] + at), read_u32(rows[four + 3] + at)};
    uint32x4_t low = {read_u32(rows[four] + at + 4), read_u32(rows[four + 1] + at + 4), read_u32(rows[four + 2] + at + 4),
                      read_u32(rows[four + 3] + at + 4)};
    const float32x4_t d = widen_f16(vmovn_u32(head));
    uint32x4_t high = vshrq_n_u32(head, 12); /* those of sub-block b are bits 4 and 5 after 2 b further places */
#pragma GCC unroll 8
    for (int b = 0; b < SUBS; b++) {
      const uint32x4_t six = vorrq_u32(vandq_u32(low, vdupq_n_u32(15)), vandq_u32(high, vdupq_n_u32(0x30)));
      const int32x4_t scale = vsubq_s32(vreinterpretq_s32_u32(six), vdupq_n_s32(32));
      vst1q_f32(t->d[b] + four, vmulq_f32(d, vcvtq_f32_s32(scale)));
      low = vshrq_n_u32(low, 4);
      high = vshrq_n_u32(high, 2);
    }
  }
}

NEON_INLINE void unpack_IQ4_XS(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  const size_t at = (size_t)(first / 256) * 136;
  unpack_iq4_xs_scales(rows, at, t);
  for (uint32_t b = 0; b < blocks; b++) {
    unpack_nibbles(rows, at + 8 + 16 * b, b, TABLE_IQ4_NL, arrange, t);
  }
}

/* ---- blocks of 256 ---- */

/* The 16 bytes that Q4_K and Q5_K begin with: d, dmin and twelve bytes of 6-bit scales and minima. */
NEON_INLINE void read_k_heads(const uint8_t *const *rows, size_t at, block_heads *h) {
  const uint32x4_t six = vdupq_n_u32(0x3f3f3f3fu);
  const uint32x4_t two = vdupq_n_u32(0x30303030u);
  const uint32x4_t four_bits = vdupq_n_u32(0x0f0f0f0fu);
#pragma GCC unroll 2
  for (int four = 0; four < 8; four += 4) {
    uint32x4_t w[4];
    gather_words(rows + four, at, w);
    vst1q_f32(h->d + four, widen_f16(vmovn_u32(w[0])));
    vst1q_f32(h->dmin + four, widen_f16(vshrn_n_u32(w[0], 16)));
    vst1q_u32(h->scales[0] + four, vandq_u32(w[1], six));
    vst1q_u32(h->scales[1] + four, vorrq_u32(vandq_u32(w[3], four_bits), vandq_u32(vshrq_n_u32(w[1], 2), two)));
    vst1q_u32(h->minima[0] + four, vandq_u32(w[2], six));
    vst1q_u32(h->minima[1] + four, vorrq_u32(vandq_u32(vshrq_n_u32(w[3], 4), four_bits), vandq_u32(vshrq_n_u32(w[2], 2), two)));
  }
}

NEON_INLINE void read_q6_heads(const uint8_t *const *rows, size_t at, block_heads *h) {
#pragma GCC unroll 2
  for (int four = 0; four < 8; four += 4) {
    uint32x4_t w[4];
    gather_words(rows + four, at + 192, w);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      vst1q_u32(h->scales[i] + four, w[i]);
    }
    vst1q_f32(h->d + four, gather_f16(rows + four, at + 208));
  }
}

/* Scales of group `group` of four rows. */
NEON_INLINE int32x4_t scales_of(const block_heads *h, uint32_t group, int four) {
  const uint32x4_t words = vld1q_u32(h->scales[group / 4] + four);
  return vshrq_n_s32(vreinterpretq_s32_u32(vshlq_u32(words, vdupq_n_s32(24 - 8 * (int)(group % 4)))), 24); /* to the top, down with its sign */
}

NEON_INLINE void spread_scales(tile *t, uint32_t groups) {
#pragma GCC unroll 16
  for (uint32_t group = 0; group < groups; group++) {
    vst1q_s32(t->scales[group], scales_of(&t->heads, group, 0));
    vst1q_s32(t->scales[group] + 4, scales_of(&t->heads, group, 4));
  }
}

NEON_INLINE void unpack_Q4_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  const size_t at = (size_t)(first / 256) * 144;
  (void)blocks; /* rows of these formats are whole chunks */
  read_k_heads(rows, at, &t->heads);
  spread_scales(t, SUBS);
  for (uint32_t v16 = 0; v16 < 8; v16++) { /* sixteen bytes: groups 4 run + half, and two further on */
    const uint32_t group = v16 / 2 * 4 + v16 % 2;
    uint8x16_t v[8];
    load_rows(rows, at + 16 + 16 * v16, arrange, v);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      store_codes(t, group, i, as_signed(low_nibbles(v[i])));
      store_codes(t, group + 2, i, as_signed(high_nibbles(v[i])));
    }
  }
}

/* Bit 4 of the nibbles comes from bit `sub` of `bits`. */
NEON_INLINE int8x16_t with_fifth(uint8x16_t nibbles, uint8x16_t bits, uint32_t sub) {
  return as_signed(vbslq_u8(vdupq_n_u8(0x10), vshlq_u8(bits, vdupq_n_s8((int8_t)(4 - (int)sub))), nibbles));
}

NEON_INLINE void unpack_Q5_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  const size_t at = (size_t)(first / 256) * 176;
  (void)blocks;
  read_k_heads(rows, at, &t->heads);
  spread_scales(t, SUBS);
#pragma GCC unroll 2
  for (uint32_t half = 0; half < 2; half++) {
    uint8x16_t high[8];
    load_rows(rows, at + 16 + 16 * half, arrange, high);
    for (uint32_t run = 0; run < 4; run++) {
      uint8x16_t v[8];
      load_rows(rows, at + 48 + 32 * run + 16 * half, arrange, v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) {
        store_codes(t, 4 * run + half, i, with_fifth(low_nibbles(v[i]), high[i], 2 * run));
        store_codes(t, 4 * run + 2 + half, i, with_fifth(high_nibbles(v[i]), high[i], 2 * run + 1));
      }
    }
  }
}

/* Bits 4 and 5 of the nibbles come from bits 2 * run and the next of `bits`. Codes stand 32 too high. */
NEON_INLINE int8x16_t with_sixth(uint8x16_t nibbles, uint8x16_t bits, uint32_t run) {
  return as_signed(vbslq_u8(vdupq_n_u8(0x30), vshlq_u8(bits, vdupq_n_s8((int8_t)(4 - 2 * (int)run))), nibbles));
}

NEON_INLINE void unpack_Q6_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, arrange_fn arrange, tile *t) {
  const size_t at = (size_t)(first / 256) * 210;
  const int8x16_t zero = vdupq_n_s8(32);
  (void)blocks;
  read_q6_heads(rows, at, &t->heads);
  spread_scales(t, GROUPS);
  for (uint32_t quarter = 0; quarter < 4; quarter++) {
    const uint32_t half = quarter / 2;
    const uint32_t side = quarter % 2;
    uint8x16_t high[8];
    load_rows(rows, at + 128 + 32 * half + 16 * side, arrange, high);
#pragma GCC unroll 2
    for (uint32_t part = 0; part < 2; part++) {
      const uint32_t group = 8 * half + 2 * part + side;
      uint8x16_t low[8];
      load_rows(rows, at + 64 * half + 32 * part + 16 * side, arrange, low);
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) {
        store_codes(t, group, i, vsubq_s8(with_sixth(low_nibbles(low[i]), high[i], part), zero));
        store_codes(t, group + 4, i, vsubq_s8(with_sixth(high_nibbles(low[i]), high[i], part + 2), zero));
      }
    }
  }
}

#endif
