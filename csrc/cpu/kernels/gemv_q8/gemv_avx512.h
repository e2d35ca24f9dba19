/*
 * gemv_avx512.h – gemv_q8 with registers of 64 bytes, for Q8_0, Q4_K, Q5_K and Q6_K; the other formats keep the body of gemv_x86.h.
 *
 * As there, weights are read from front to back, eight neighbouring blocks at a time. What differs: the activations are laid out once per
 * call in the order in which a block's codes come out of their bytes; four products sum to 16 bits, so that two vectors of sums are packed
 * into one before they meet their scales; and products wait in memory until eight rows are complete, then eight rows are added side by
 * side. Bits are those of matmul_q8/ref.c: within a block only integers are added, and products are added in the order of the blocks.
 */
#ifndef CPU_KERNELS_GEMV_Q8_AVX512_H
#define CPU_KERNELS_GEMV_Q8_AVX512_H

#include "cpu/kernels/gemv_q8/gemv_x86.h"

/*
 * What a call needs of its activation row, in the kernels' order, and over again until eight blocks are full: short rows need no other code.
 * Per 64 codes: the codes, and 16 words that their sums begin with.
 */
typedef struct wide_x {
  _Alignas(64) int8_t codes[GEMV_COLS_MAX];
  _Alignas(64) int32_t start[GEMV_COLS_MAX / 4];
  _Alignas(64) int16_t sums[GEMV_COLS_MAX / 32]; /* of 32 codes each */
  float scales[GEMV_COLS_MAX / 32]; /* of blocks */
} wide_x;

/* Products of eight rows by blocks, in the order of memory: what is added, and what is then taken away. */
typedef struct wide_products {
  _Alignas(64) float plus[GEMV_ROWS * GEMV_COLS_MAX / 32];
  _Alignas(64) float minus[GEMV_ROWS * GEMV_COLS_MAX / Q8_CHUNK];
} wide_products;

GEMV_INLINE __m512i load512(const void *p) { return _mm512_loadu_si512(p); }
GEMV_INLINE __m512i both_halves(const void *p) { return _mm512_broadcast_i64x4(load256(p)); }
GEMV_INLINE __m512i four_times(const void *p) { return _mm512_broadcast_i32x4(load128(p)); }
/* Bits of `a` where `mask` is set, else of `b`. */
GEMV_INLINE __m512i choose(__m512i mask, __m512i a, __m512i b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }

/* Together, in every quarter: the sum of the words of each of four vectors. */
GEMV_INLINE __m512i sum_pairs(__m512i a, __m512i b) { return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)); }
GEMV_INLINE __m512i sum_quads(__m512i ab, __m512i cd) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Word i: the sum of the sixteen words of row(i), in the order of memory, few of them alive at a time. */
#define SUM_WIDE_ROWS(row, ret) \
  do { \
    const __m512i row0_ = row(0); \
    const __m512i sum01_ = sum_pairs(row0_, row(1)); \
    const __m512i row2_ = row(2); \
    const __m512i sum23_ = sum_pairs(row2_, row(3)); \
    const __m512i low_ = sum_quads(sum01_, sum23_); \
    const __m512i row4_ = row(4); \
    const __m512i sum45_ = sum_pairs(row4_, row(5)); \
    const __m512i row6_ = row(6); \
    const __m512i sum67_ = sum_pairs(row6_, row(7)); \
    const __m512i high_ = sum_quads(sum45_, sum67_); \
    const __m512i quarters_ = _mm512_add_epi32(_mm512_shuffle_i32x4(low_, high_, 0x88), _mm512_shuffle_i32x4(low_, high_, 0xdd)); \
    const __m512i halves_ = _mm512_add_epi32(quarters_, _mm512_shuffle_i32x4(quarters_, quarters_, 0xb1)); \
    (ret) = _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 4, 5, 0, 1, 4, 5), halves_)); \
  } while (0)

/* A masked load takes word i from eight addresses that are `stride` apart without passing through general registers. */
GEMV_INLINE __m256 wide_f16(const uint8_t *p, size_t stride) {
  __m128i v = _mm_loadu_si64(p);
#pragma GCC unroll 7
  for (int i = 1; i < 8; i++) {
    v = _mm_mask_loadu_epi16(v, (__mmask8)(1 << i), p + (stride - 2) * (size_t)i);
  }
  return _mm256_cvtph_ps(v);
}

/* ---- a call: lay out x, multiply eight blocks at a time, add eight rows at a time ---- */

/* Where the codes of 64 columns begin: their halves may come from two places. */
GEMV_INLINE void lay_out(wide_x *ret, size_t at, const int8_t *low, const int8_t *high, int zero) {
  const __m512i codes = _mm512_inserti64x4(_mm512_castsi256_si512(load256(low)), load256(high), 1);
  const __m512i raised = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8((char)zero), codes);
  _mm512_store_si512(ret->codes + at, codes);
  _mm512_store_si512(ret->start + at / 4, _mm512_sub_epi32(_mm512_setzero_si512(), raised));
}

/*
 * Straight: as in the row. Paired: halves 0 and 2, 1 and 3, 4 and 6, 5 and 7 of every 256, as low and high nibbles come. A whole row is a
 * multiple of 256 columns.
 */
GEMV_INLINE void lay_out_row(const gemv_q8 *g, int paired, int zero, uint32_t cols, wide_x *ret) {
  const int8_t *x = g->x->codes + g->token * g->x->code_stride;
  const int16_t *sums = g->x->sums + g->token * g->x->sum_stride;
  for (uint32_t at = 0; at < cols; at += 128) {
    const int8_t *from = x + at % g->cols;
    lay_out(ret, at, from, from + (paired ? 64 : 32), zero);
    lay_out(ret, at + 64, from + (paired ? 32 : 64), from + 96, zero);
  }
  for (uint32_t i = 0; i < cols / 32; i++) {
    const int16_t *from = sums + 2 * (i % (g->cols / 32));
    ret->sums[i] = (int16_t)(from[0] + from[1]);
  }
}

/* y[row] = the row's products, added in the order of its blocks. */
GEMV_INLINE void add_rows(const wide_products *p, uint32_t blocks, int has_minima, float *ret) {
  if (blocks % 8 != 0) {
    for (uint32_t row = 0; row < GEMV_ROWS; row++) {
      float y = 0;
      for (uint32_t b = row * blocks; b < (row + 1) * blocks; b++) {
        y = add_one(y, p->plus[b], has_minima ? p->minus[b] : 0, has_minima);
      }
      ret[row] = y;
    }
    return;
  }
  __m256 y = _mm256_setzero_ps();
  for (uint32_t first = 0; first < blocks; first += 8) {
    __m256i plus[8];
    __m256i minus[8];
#pragma GCC unroll 8
    for (uint32_t row = 0; row < 8; row++) {
      plus[row] = load256(p->plus + row * blocks + first);
      minus[row] = has_minima ? load256(p->minus + row * blocks + first) : _mm256_setzero_si256();
    }
    transpose8(plus);
    if (has_minima) {
      transpose8(minus);
    }
#pragma GCC unroll 8
    for (int b = 0; b < 8; b++) {
      y = _mm256_add_ps(y, _mm256_castsi256_ps(plus[b]));
      y = has_minima ? _mm256_sub_ps(y, _mm256_castsi256_ps(minus[b])) : y;
    }
  }
  _mm256_storeu_ps(ret, y);
}

/* Eight blocks at p, which meet those of x from `block` on. */
typedef void (*wide_group)(const uint8_t *p, const wide_x *x, size_t block, float *plus, float *minus);

typedef struct wide_format {
  size_t block_bytes;
  uint32_t block_cols;
  int paired, zero, has_minima;
  wide_group group;
} wide_format;

GEMV_INLINE void gemv_wide(const wide_format f, const gemv_q8 *g) {
  wide_x x;
  wide_products products;
  const uint32_t blocks = g->cols / f.block_cols;
  const uint32_t laid_out = blocks < 8 ? 8 : blocks;
  const float *scales = g->x->scales + g->token * g->x->scale_stride;
  lay_out_row(g, f.paired, f.zero, laid_out * f.block_cols, &x);
  for (uint32_t b = 0; b < laid_out; b++) {
    x.scales[b] = scales[b % blocks];
  }
  const uint8_t *p = g->rows;
  for (uint32_t row = 0; row < g->row_count; row += GEMV_ROWS) {
    for (uint32_t b = 0; b < GEMV_ROWS * blocks; b += 8) {
      f.group(p, &x, b % laid_out, products.plus + b, products.minus + (f.has_minima ? b : 0));
      p += 8 * f.block_bytes;
    }
    add_rows(&products, blocks, f.has_minima, g->ret + row);
  }
}

GEMV_INLINE void store_plus(float *plus, __m256 d, const float *scales, __m256i sum) {
  _mm256_storeu_ps(plus, _mm256_mul_ps(_mm256_mul_ps(d, _mm256_loadu_ps(scales)), _mm256_cvtepi32_ps(sum)));
}

/* ---- Q8_0 ---- */

/* Two blocks, as codes from 0 to 255; x starts with what that is too high by. */
GEMV_INLINE __m512i wide_Q8_0(const uint8_t *p, const wide_x *x, size_t at) {
  const __m512i codes = _mm512_inserti64x4(_mm512_castsi256_si512(load256(p + 2)), load256(p + 36), 1);
  return _mm512_dpbusd_epi32(load512(x->start + at / 4), _mm512_xor_si512(codes, _mm512_set1_epi8((char)0x80)), load512(x->codes + at));
}

GEMV_INLINE void wide_group_Q8_0(const uint8_t *p, const wide_x *x, size_t block, float *plus, float *minus) {
  const size_t at = block * 32;
  (void)minus;
#pragma GCC unroll 5
  for (int line = 0; line < 5; line++) {
    prefetch_line(p + line * 64);
  }
  const __m512i ab = wide_Q8_0(p, x, at);
  const __m512i cd = wide_Q8_0(p + 68, x, at + 64);
  const __m512i ef = wide_Q8_0(p + 136, x, at + 128);
  const __m512i gh = wide_Q8_0(p + 204, x, at + 192);
  const __m512i quads = sum_quads(sum_pairs(ab, cd), sum_pairs(ef, gh)); /* quarters 0, 1: blocks 0, 2, 4, 6; quarters 2, 3: the odd ones */
  const __m512i halves = _mm512_add_epi32(quads, _mm512_shuffle_i32x4(quads, quads, 0xb1));
  const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0);
  store_plus(plus, wide_f16(p, 34), x->scales + block, _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, halves)));
}

/* ---- Q4_K and Q5_K: eight blocks' scales and minima are unpacked together, then read back one block at a time ---- */

typedef struct wide_scales {
  _Alignas(64) uint8_t bytes[8][16]; /* per block: eight scales, eight minima */
} wide_scales;

/* The first 16 bytes of four blocks. */
GEMV_INLINE __m512i wide_heads(const uint8_t *p, size_t bytes) {
  __m512i v = _mm512_castsi128_si512(load128(p));
#pragma GCC unroll 3
  for (int i = 1; i < 4; i++) {
    v = _mm512_mask_loadu_epi32(v, (__mmask16)(15 << (4 * i)), p + (bytes - 16) * (size_t)i);
  }
  return v;
}

/* Twelve bytes of 6-bit scales and minima (ggml's k-quants layout, ref.c) as sixteen bytes per quarter. */
GEMV_INLINE __m512i wide_six_bits(__m512i heads) {
  const __m512i low_mask = four_times((const uint32_t[4]){0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f});
  const __m512i high_mask = four_times((const uint32_t[4]){0, 0x30303030, 0, 0x30303030});
  const __m512i shifts = four_times((const uint32_t[4]){0, 0, 0, 4});
  const __m512i first = _mm512_srlv_epi32(_mm512_shuffle_epi32(heads, (_MM_PERM_ENUM)_MM_SHUFFLE(3, 2, 3, 1)), shifts);
  const __m512i second = _mm512_srli_epi32(_mm512_shuffle_epi32(heads, (_MM_PERM_ENUM)_MM_SHUFFLE(2, 2, 1, 1)), 2);
  return _mm512_or_si512(_mm512_and_si512(first, low_mask), _mm512_and_si512(second, high_mask));
}

/* Per quarter Σ min Σx of one block, as four words to be added. */
GEMV_INLINE __m512i wide_minima(__m512i six, const int16_t *sums) {
  const __m512i minima = _mm512_unpackhi_epi8(six, _mm512_setzero_si512());
  return _mm512_dpwssd_epi32(_mm512_setzero_si512(), minima, load512(sums));
}

/* d and dmin of eight blocks, as pairs of float16. */
GEMV_INLINE __m256i wide_d(const uint8_t *p, size_t bytes) {
  __m256i v = _mm256_castsi128_si256(_mm_loadu_si32(p));
#pragma GCC unroll 7
  for (int i = 1; i < 8; i++) {
    v = _mm256_mask_loadu_epi32(v, (__mmask8)(1 << i), p + (bytes - 4) * (size_t)i);
  }
  return v;
}

GEMV_INLINE void unpack_wide_scales(const uint8_t *p, size_t bytes, const wide_x *x, size_t block, wide_scales *ret, __m256 *ret_d,
                                    float *minus) {
  const __m512i low = wide_six_bits(wide_heads(p, bytes));
  const __m512i high = wide_six_bits(wide_heads(p + 4 * bytes, bytes));
  _mm512_store_si512(ret->bytes[0], low);
  _mm512_store_si512(ret->bytes[4], high);
  const __m512i pairs = sum_pairs(wide_minima(low, x->sums + 8 * block), wide_minima(high, x->sums + 8 * block + 32));
  const __m512i sums = _mm512_add_epi32(pairs, _mm512_shuffle_epi32(pairs, (_MM_PERM_ENUM)0x4e));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m256i minimum = _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, sums));
  const __m256i d = wide_d(p, bytes);
  *ret_d = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(d));
  store_plus(minus, _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(d, 16))), x->scales + block, minimum);
}

/* Codes times x, four at a time: sums below 2^15. */
GEMV_INLINE __m512i dot_wide(__m512i codes, const int8_t *x) { return _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, load512(x)); }

/* In the lower half the scales of sub-blocks first and first + 1, four words each, in the upper one those of first + 2 and first + 3. */
GEMV_INLINE __m512i pick_scales(const uint8_t *bytes, int first) {
  const long long a = (long long)(0x8000800080008000ULL + 0x0001000100010001ULL * (unsigned)first);
  const long long step = 0x0001000100010001LL;
  const __m512i order = _mm512_setr_epi64(a, a + step, a, a + step, a + 2 * step, a + 3 * step, a + 2 * step, a + 3 * step);
  return _mm512_shuffle_epi8(four_times(bytes), order);
}

GEMV_INLINE __m512i weigh_wide(__m512i sum, __m512i low, __m512i high, __m512i scales) {
  return _mm512_dpwssd_epi32(sum, _mm512_packs_epi32(low, high), scales);
}

typedef __m512i (*wide_row)(const uint8_t *block, const uint8_t *scales, const int8_t *x);

GEMV_INLINE __m512i wide_row_Q4_K(const uint8_t *block, const uint8_t *scales, const int8_t *x) {
  const __m512i nibble = _mm512_set1_epi8(15);
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    const __m512i v = load512(block + 16 + 64 * half);
    const __m512i low = dot_wide(_mm512_and_si512(v, nibble), x + 128 * half);
    const __m512i high = dot_wide(_mm512_and_si512(_mm512_srli_epi16(v, 4), nibble), x + 128 * half + 64);
    sum = weigh_wide(sum, low, high, pick_scales(scales, 4 * half));
  }
  return sum;
}

GEMV_INLINE __m512i wide_row_Q5_K(const uint8_t *block, const uint8_t *scales, const int8_t *x) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i five = _mm512_set1_epi8(31);
  const __m512i fifth = both_halves(block + 16);
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    /* Bit 4 of a code is bit 4 * half + {0, 2} of its byte for low nibbles and one further for high ones: turned to where it belongs. */
    const int turn = 36 - 4 * half;
    const __m512i turns = _mm512_inserti64x4(_mm512_set1_epi32(turn), _mm256_set1_epi32(turn - 2), 1);
    const __m512i turned = _mm512_rolv_epi32(fifth, turns);
    const __m512i v = load512(block + 48 + 64 * half);
    const __m512i low = _mm512_and_si512(choose(nibble, v, turned), five);
    const __m512i high = _mm512_and_si512(choose(nibble, _mm512_srli_epi16(v, 4), _mm512_ror_epi32(turned, 1)), five);
    sum = weigh_wide(sum, dot_wide(low, x + 128 * half), dot_wide(high, x + 128 * half + 64), pick_scales(scales, 4 * half));
  }
  return sum;
}

GEMV_INLINE __m512i weigh_k(const uint8_t *p, size_t bytes, wide_row row, const wide_scales *s, uint32_t lane, const int8_t *x) {
  prefetch_part(p, bytes, lane);
  return row(p + lane * bytes, s->bytes[lane], x + (size_t)lane * Q8_CHUNK);
}

GEMV_INLINE void wide_group_k(const uint8_t *p, size_t bytes, wide_row row, const wide_x *x, size_t block, float *plus, float *minus) {
  wide_scales s;
  __m256 d;
  unpack_wide_scales(p, bytes, x, block, &s, &d, minus);
  tables_are_written(&s);
  __m256i sum;
#define LANE(i) weigh_k(p, bytes, row, &s, (i), x->codes + block * Q8_CHUNK)
  SUM_WIDE_ROWS(LANE, sum);
#undef LANE
  store_plus(plus, d, x->scales + block, sum);
}

GEMV_INLINE void wide_group_Q4_K(const uint8_t *p, const wide_x *x, size_t block, float *plus, float *minus) {
  wide_group_k(p, 144, wide_row_Q4_K, x, block, plus, minus);
}

GEMV_INLINE void wide_group_Q5_K(const uint8_t *p, const wide_x *x, size_t block, float *plus, float *minus) {
  wide_group_k(p, 176, wide_row_Q5_K, x, block, plus, minus);
}

/* ---- Q6_K: a code is 32 too high, which each word's sum starts with: four products then stay below 2^14 ---- */

/* Scale `half * 8 + quarter` four times, then that which is four further, as 16 bits with their sign. */
GEMV_INLINE __m512i pick_signed_scales(const uint8_t *scales, int half) {
  const unsigned long long base = 0x0080008000800080ULL + 0x0800080008000800ULL * (unsigned)half;
  const unsigned long long step = 0x0100010001000100ULL;
  const __m512i order = _mm512_setr_epi64((long long)base, (long long)(base + 4 * step), (long long)(base + step),
                                          (long long)(base + 5 * step), (long long)(base + 2 * step), (long long)(base + 6 * step),
                                          (long long)(base + 3 * step), (long long)(base + 7 * step));
  return _mm512_srai_epi16(_mm512_shuffle_epi8(four_times(scales), order), 8);
}

GEMV_INLINE __m512i wide_row_Q6_K(const uint8_t *block, const wide_x *x, size_t at) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i six = _mm512_set1_epi8(63);
  const __m512i shifts = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; half++) {
    const size_t first = at + 128 * half;
    const __m512i v = load512(block + 64 * half);
    const __m512i bits = _mm512_srlv_epi16(both_halves(block + 128 + 32 * half), shifts);
    const __m512i low = _mm512_and_si512(choose(nibble, v, _mm512_slli_epi16(bits, 4)), six);
    const __m512i high = _mm512_and_si512(choose(nibble, _mm512_srli_epi16(v, 4), bits), six);
    const __m512i low_sum = _mm512_dpbusd_epi32(load512(x->start + first / 4), low, load512(x->codes + first));
    const __m512i high_sum = _mm512_dpbusd_epi32(load512(x->start + first / 4 + 16), high, load512(x->codes + first + 64));
    sum = weigh_wide(sum, low_sum, high_sum, pick_signed_scales(block + 192, (int)half));
  }
  return sum;
}

GEMV_INLINE __m512i wide_weigh_Q6_K(const uint8_t *p, uint32_t lane, const wide_x *x, size_t block) {
  prefetch_part(p, 210, lane);
  return wide_row_Q6_K(p + 210 * lane, x, (block + lane) * Q8_CHUNK);
}

GEMV_INLINE void wide_group_Q6_K(const uint8_t *p, const wide_x *x, size_t block, float *plus, float *minus) {
  __m256i sum;
  (void)minus;
#define LANE(i) wide_weigh_Q6_K(p, (i), x, block)
  SUM_WIDE_ROWS(LANE, sum);
#undef LANE
  store_plus(plus, wide_f16(p + 208, 210), x->scales + block, sum);
}

#define GEMV_WIDE(format, isa, ...) \
  void gemv_q8_##format##_##isa(const gemv_q8 *g) { gemv_wide((wide_format){__VA_ARGS__, wide_group_##format}, g); }

#endif
