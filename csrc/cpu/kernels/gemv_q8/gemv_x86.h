/*
 * gemv_x86.h – the body of gemv_q8 for every x86 variant.
 *
 * Weights are read from the first byte to the last, which the processor's prefetchers know how to follow: eight rows side by side were
 * slower by a third (test/bench/LOG.md). Eight neighbouring blocks are multiplied at a time and their sums brought into one vector, lane i
 * for block i; the products are then added one by one, in the order of the blocks, as in matmul_q8/ref.c.
 */
#ifndef CPU_KERNELS_GEMV_Q8_X86_H
#define CPU_KERNELS_GEMV_Q8_X86_H

#include "cpu/kernels/gemv_q8/gemv_q8.h"
#include "cpu/kernels/matmul_q8/unpack_avx2.h"

#define GEMV_INLINE static inline __attribute__((always_inline))

/*
 * Bytes between what is read and what is fetched, into the second-level cache and from there into the first: one fetch alone left a sixth
 * of the bandwidth unused (test/bench/LOG.md, machine 3).
 */
enum { GEMV_FAR = 8192, GEMV_NEAR = 1024 };

GEMV_INLINE void prefetch_line(const uint8_t *p) {
  _mm_prefetch((const char *)p + GEMV_FAR, _MM_HINT_T1);
  _mm_prefetch((const char *)p + GEMV_NEAR, _MM_HINT_T0);
}

/*
 * Word i of the result: the sum of the eight words of `row(i)`. Each pair is added at once, so that few sums are alive at a time,
 * and in this order, which is that of memory.
 */
#define SUM_ROWS(row, ret) \
  do { \
    const __m256i row0_ = row(0); \
    const __m256i sum01_ = _mm256_hadd_epi32(row0_, row(1)); \
    const __m256i row2_ = row(2); \
    const __m256i sum23_ = _mm256_hadd_epi32(row2_, row(3)); \
    const __m256i low_ = _mm256_hadd_epi32(sum01_, sum23_); \
    const __m256i row4_ = row(4); \
    const __m256i sum45_ = _mm256_hadd_epi32(row4_, row(5)); \
    const __m256i row6_ = row(6); \
    const __m256i sum67_ = _mm256_hadd_epi32(row6_, row(7)); \
    const __m256i high_ = _mm256_hadd_epi32(sum45_, sum67_); \
    (ret) = _mm256_add_epi32(_mm256_permute2x128_si256(low_, high_, 0x20), _mm256_permute2x128_si256(low_, high_, 0x31)); \
  } while (0)

GEMV_INLINE __m256i broadcast32(const void *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

/*
 * Both add to the words of `sum`: four products of unsigned codes and activations, which stay below 2^15 in pairs; or these pairs times
 * the 16-bit words of `scale`. One or two instructions where the processor has them, two or three otherwise.
 */
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
GEMV_INLINE __m256i add_dot(__m256i sum, __m256i codes, __m256i x) { return _mm256_dpbusd_epi32(sum, codes, x); }
GEMV_INLINE __m256i add_words(__m256i sum, __m256i words, __m256i scale) { return _mm256_dpwssd_epi32(sum, words, scale); }
#else
GEMV_INLINE __m256i add_words(__m256i sum, __m256i words, __m256i scale) { return _mm256_add_epi32(sum, _mm256_madd_epi16(words, scale)); }
GEMV_INLINE __m256i add_dot(__m256i sum, __m256i codes, __m256i x) {
  return add_words(sum, _mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1));
}
#endif

/* A part of what eight blocks of `bytes` from p on will be followed by: line by line, a few with each block. */
GEMV_INLINE void prefetch_part(const uint8_t *p, size_t bytes, uint32_t lane) {
  const size_t lines = (8 * bytes + 63) / 64;
#pragma GCC unroll 4
  for (size_t line = lines * lane / 8; line < lines * (lane + 1) / 8; line++) {
    prefetch_line(p + line * 64);
  }
}

/* ---- a scale per 32: a group is the eight blocks of a chunk of one row ---- */

/* 16 bytes as 32 nibbles: the low ones, then the high ones. */
GEMV_INLINE __m256i spread_nibbles(const uint8_t *p) {
  const __m256i both = _mm256_broadcastsi128_si256(load128(p));
  return low_nibbles(_mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)));
}

GEMV_INLINE __m256i dot_unsigned(__m256i w, __m256i x) { return add_dot(_mm256_setzero_si256(), w, x); }
GEMV_INLINE __m256i dot_signed(__m256i w, __m256i x) { return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }

/* Codes at p times 32 activations. */
typedef __m256i (*gemv_dot)(const uint8_t *p, __m256i x);

GEMV_INLINE __m256i dot_Q8_0(const uint8_t *p, __m256i x) { return dot_signed(load256(p), x); }
GEMV_INLINE __m256i dot_Q4_0(const uint8_t *p, __m256i x) { return dot_unsigned(spread_nibbles(p), x); }
GEMV_INLINE __m256i dot_IQ4(const uint8_t *p, __m256i x) {
  return dot_signed(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(TABLE_IQ4_NL)), spread_nibbles(p)), x);
}
GEMV_INLINE __m256i dot_MXFP4(const uint8_t *p, __m256i x) {
  const __m256i raised = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14, 15, 16, 18, 20, 24, 12, 11,
                                          10, 9, 8, 6, 4, 0);
  return dot_unsigned(_mm256_shuffle_epi8(raised, spread_nibbles(p)), x);
}

/* Scales of the eight blocks of `bytes` each, at p. */
typedef __m256 (*gemv_scales)(const uint8_t *p, size_t bytes);

GEMV_INLINE __m256 scales_f16(const uint8_t *p, size_t bytes) {
  const uint8_t *blocks[8];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++) {
    blocks[i] = p + i * bytes;
  }
  return gather_f16(blocks, 0);
}

GEMV_INLINE __m256 scales_e8m0(const uint8_t *p, size_t bytes) {
  float d[8];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++) {
    d[i] = quant_e8m0_half(p[i * bytes]);
  }
  return _mm256_loadu_ps(d);
}

/* d times the eight 6-bit scales of a super-block. */
GEMV_INLINE __m256 scales_IQ4_XS(const uint8_t *p, size_t bytes) {
  const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)read_u32(p + 4)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  const __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(read_u16(p + 2)), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
  const __m256i six = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                      _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
  (void)bytes;
  return _mm256_mul_ps(_mm256_set1_ps(read_f16(p)), _mm256_cvtepi32_ps(_mm256_sub_epi32(six, _mm256_set1_epi32(32))));
}

/* Where the codes of a format with a scale per 32 lie in a chunk of a row, and what unsigned codes stand too high by. */
typedef struct gemv_format {
  size_t chunk_bytes, codes, stride;
  gemv_dot dot;
  gemv_scales scales;
  int zero;
} gemv_format;

GEMV_INLINE __m256i dot_block(const gemv_format f, const uint8_t *p, const int8_t *x, uint32_t lane) {
  prefetch_part(p, f.chunk_bytes / 8, lane);
  return f.dot(p + f.codes + lane * f.stride, load256(x + 32 * lane));
}

/* The eight products of a chunk at p, before they are added. */
GEMV_INLINE __m256 multiply_chunk(const gemv_format f, const uint8_t *p, const int8_t *x, const float *scales, const int16_t *sums) {
  __m256i sum;
#define LANE(i) dot_block(f, p, x, (i))
  SUM_ROWS(LANE, sum);
#undef LANE
  if (f.zero != 0) {
    sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(load256(sums), _mm256_set1_epi16((short)f.zero)));
  }
  return _mm256_mul_ps(_mm256_mul_ps(f.scales(p, f.stride), _mm256_loadu_ps(scales)), _mm256_cvtepi32_ps(sum));
}

GEMV_INLINE void gemv_blocks(const gemv_format f, const gemv_q8 *g) {
  const int8_t *codes = g->x->codes + g->token * g->x->code_stride;
  const float *scales = g->x->scales + g->token * g->x->scale_stride;
  const int16_t *sums = g->x->sums + g->token * g->x->sum_stride;
  const uint8_t *rows = g->rows;
  for (uint32_t row = 0; row < g->row_count; row++) {
    float y = 0;
    for (uint32_t first = 0; first < g->cols; first += Q8_CHUNK) {
      float products[8];
      _mm256_storeu_ps(products, multiply_chunk(f, rows, codes + first, scales + first / 32, sums + first / Q8_SUM));
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) {
        y += products[i];
      }
      rows += f.chunk_bytes;
    }
    g->ret[row] = y;
  }
}

/* ---- blocks of 256: a group is eight neighbours, of one row or of several ---- */

/* What eight lanes read of x. Groups that fall on the same columns share it. */
typedef struct gemv_lanes {
  _Alignas(32) int32_t sums[GROUPS / 2][8]; /* pairs of neighbouring sums */
  _Alignas(32) float scales[8];
  const int8_t *codes[8];
  const int16_t *own_sums[8];
} gemv_lanes;

/* The integer and float scales of eight blocks. */
typedef struct gemv_tables {
  _Alignas(32) int32_t scales[GROUPS][8];
  _Alignas(32) int32_t minima[GROUPS / 2][8];
  _Alignas(32) float d[8];
  _Alignas(32) float dmin[8];
} gemv_tables;

/*
 * After the tables are written: what follows reads them from memory. Otherwise the compiler takes words out of the vectors that it has
 * just stored, by shifts, where a broadcasting load costs nothing.
 */
GEMV_INLINE void tables_are_written(const void *t) { __asm__ volatile("" : : "r"(t) : "memory"); }

static inline void read_lanes(const gemv_q8 *g, uint32_t first_block, uint32_t blocks, gemv_lanes *ret) {
  __m256i v[8];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < 8; i++) {
    const uint32_t block = (first_block + i) % blocks;
    ret->codes[i] = g->x->codes + g->token * g->x->code_stride + (size_t)block * Q8_CHUNK;
    ret->own_sums[i] = g->x->sums + g->token * g->x->sum_stride + (size_t)block * GROUPS;
    ret->scales[i] = g->x->scales[g->token * g->x->scale_stride + block];
    v[i] = load256(ret->own_sums[i]);
  }
  transpose8(v);
#pragma GCC unroll 8
  for (uint32_t pair = 0; pair < 8; pair++) {
    _mm256_store_si256((__m256i *)ret->sums[pair], v[pair]);
  }
}

GEMV_INLINE __m256i add_weighed(__m256i sum, __m256i codes, const int8_t *x, __m256i scale) {
  return add_words(sum, _mm256_maddubs_epi16(codes, load256(x)), scale);
}

GEMV_INLINE __m256i row_Q4_K(const uint8_t *block, const gemv_tables *t, int lane, const int8_t *x) {
  __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int run = 0; run < 4; run++) {
    const __m256i v = load256(block + 16 + 32 * run);
    sum = add_weighed(sum, low_nibbles(v), x + 64 * run, broadcast32(&t->scales[2 * run][lane]));
    sum = add_weighed(sum, high_nibbles(v), x + 64 * run + 32, broadcast32(&t->scales[2 * run + 1][lane]));
  }
  return sum;
}

GEMV_INLINE __m256i row_Q5_K(const uint8_t *block, const gemv_tables *t, int lane, const int8_t *x) {
  const __m256i sixteen = _mm256_set1_epi8(16);
  __m256i sum = _mm256_setzero_si256();
  const __m256i high = load256(block + 16);
#pragma GCC unroll 4
  for (int run = 0; run < 4; run++) {
    const __m256i v = load256(block + 48 + 32 * run);
    const __m256i first = run < 2 ? _mm256_slli_epi16(high, 4 - 2 * run) : _mm256_srli_epi16(high, 2 * run - 4);
    const __m256i second = run < 2 ? _mm256_slli_epi16(high, 3 - 2 * run) : _mm256_srli_epi16(high, 2 * run - 3);
    const __m256i low5 = _mm256_or_si256(low_nibbles(v), _mm256_and_si256(first, sixteen));
    const __m256i high5 = _mm256_or_si256(high_nibbles(v), _mm256_and_si256(second, sixteen));
    sum = add_weighed(sum, low5, x + 64 * run, broadcast32(&t->scales[2 * run][lane]));
    sum = add_weighed(sum, high5, x + 64 * run + 32, broadcast32(&t->scales[2 * run + 1][lane]));
  }
  return sum;
}

/* Words 2 * pair and 2 * pair + 1 of each half of `words`, the first eight times in the lower half and the second in the upper one. */
GEMV_INLINE __m256i spread_pair(__m256i words, int pair) {
  const __m256i first = _mm256_set1_epi16((short)(0x0100 + 0x0404 * pair));
  const __m256i second = _mm256_set1_epi16((short)(0x0302 + 0x0404 * pair));
  return _mm256_shuffle_epi8(words, _mm256_blend_epi32(first, second, 0xf0));
}

/* Each vector of 32 codes holds two groups of 16, the first in its lower half. Codes stand 32 too high, which the sums of x make good. */
GEMV_INLINE __m256i row_Q6_K(const uint8_t *block, const int16_t *sums, const int8_t *x) {
  const __m256i upper = _mm256_set1_epi8(0x30);
  const __m256i scales = _mm256_cvtepi8_epi16(load128(block + 192));
  const __m256i zero = _mm256_slli_epi32(_mm256_madd_epi16(scales, load256(sums)), 5);
  __m256i sum = _mm256_sub_epi32(_mm256_setzero_si256(), zero);
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    const __m256i high = load256(block + 128 + 32 * half);
    const __m256i eight = half == 0 ? _mm256_permute4x64_epi64(scales, 0x44) : _mm256_permute4x64_epi64(scales, 0xee);
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
      const __m256i v = load256(block + 64 * half + 32 * part);
      const __m256i bits = part == 0 ? high : _mm256_srli_epi16(high, 2);
      const __m256i low6 = _mm256_or_si256(low_nibbles(v), _mm256_and_si256(_mm256_slli_epi16(bits, 4), upper));
      const __m256i high6 = _mm256_or_si256(high_nibbles(v), _mm256_and_si256(bits, upper));
      const int8_t *codes = x + 128 * half + 32 * part;
      sum = add_weighed(sum, low6, codes, spread_pair(eight, part));
      sum = add_weighed(sum, high6, codes + 64, spread_pair(eight, part + 2));
    }
  }
  return sum;
}

typedef __m256i (*gemv_row)(const uint8_t *block, const gemv_tables *t, int lane, const int8_t *x);

GEMV_INLINE __m256i weigh_block(const uint8_t *p, size_t bytes, gemv_row row, const gemv_tables *t, uint32_t lane, const gemv_lanes *x) {
  prefetch_part(p, bytes, lane);
  return row(p + lane * bytes, t, (int)lane, x->codes[lane]);
}

/* The products of eight blocks at p: what is added, and what is then taken away. */
typedef struct gemv_products {
  __m256 plus, minus;
} gemv_products;

typedef gemv_products (*gemv_group)(const uint8_t *p, const gemv_lanes *x);

GEMV_INLINE gemv_products group_k(const uint8_t *p, size_t bytes, gemv_row row, const gemv_lanes *x) {
  gemv_tables t;
  const uint8_t *blocks[8];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++) {
    blocks[i] = p + i * bytes;
  }
  const tile_part part = {.scales = &t.scales[0][0], .minima = &t.minima[0][0], .d = t.d, .dmin = t.dmin, .rows = 8};
  unpack_k_scales(blocks, 0, &part);
  tables_are_written(&t);
  __m256i sum;
#define LANE(i) weigh_block(p, bytes, row, &t, (i), x)
  SUM_ROWS(LANE, sum);
#undef LANE
  __m256i minimum = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int g = 0; g < GROUPS / 2; g++) {
    minimum = _mm256_add_epi32(minimum, _mm256_madd_epi16(load256(t.minima[g]), load256(x->sums[g])));
  }
  const __m256 scales = _mm256_load_ps(x->scales);
  return (gemv_products){_mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(t.d), scales), _mm256_cvtepi32_ps(sum)),
                         _mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(t.dmin), scales), _mm256_cvtepi32_ps(minimum))};
}

GEMV_INLINE gemv_products group_Q4_K(const uint8_t *p, const gemv_lanes *x) { return group_k(p, 144, row_Q4_K, x); }
GEMV_INLINE gemv_products group_Q5_K(const uint8_t *p, const gemv_lanes *x) { return group_k(p, 176, row_Q5_K, x); }

GEMV_INLINE __m256i weigh_Q6_K(const uint8_t *p, uint32_t lane, const gemv_lanes *x) {
  prefetch_part(p, 210, lane);
  return row_Q6_K(p + 210 * lane, x->own_sums[lane], x->codes[lane]);
}

GEMV_INLINE gemv_products group_Q6_K(const uint8_t *p, const gemv_lanes *x) {
  __m256i sum;
#define LANE(i) weigh_Q6_K(p, (i), x)
  SUM_ROWS(LANE, sum);
#undef LANE
  const __m256 scales = _mm256_mul_ps(scales_f16(p + 208, 210), _mm256_load_ps(x->scales));
  return (gemv_products){_mm256_mul_ps(scales, _mm256_cvtepi32_ps(sum)), _mm256_setzero_ps()};
}

GEMV_INLINE float add_one(float y, float plus, float minus, int has_minima) { return has_minima ? (y + plus) - minus : y + plus; }

/* Adds a group's products to the rows they belong to, block after block: lanes [0, 8) are blocks from `block` on, `blocks` to a row. */
GEMV_INLINE void add_products(const gemv_products p, int has_minima, uint32_t block, uint32_t blocks, float *ret) {
  float plus[8];
  float minus[8];
  _mm256_storeu_ps(plus, p.plus);
  _mm256_storeu_ps(minus, p.minus);
  if (blocks >= 8) { /* all of one row */
    float y = ret[block / blocks];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      y = add_one(y, plus[i], minus[i], has_minima);
    }
    ret[block / blocks] = y;
    return;
  }
  for (uint32_t i = 0; i < 8; i++) {
    float *y = &ret[(block + i) / blocks];
    *y = add_one(*y, plus[i], minus[i], has_minima);
  }
}

GEMV_INLINE void gemv_super_blocks(const gemv_q8 *g, size_t bytes, gemv_group group, int has_minima) {
  enum { PATTERNS = GEMV_COLS_MAX / Q8_CHUNK / 8 };
  gemv_lanes lanes[PATTERNS];
  const uint32_t blocks = g->cols / Q8_CHUNK;
  const uint32_t patterns = blocks < 8 ? 1 : blocks / 8;
  for (uint32_t p = 0; p < patterns; p++) {
    read_lanes(g, 8 * p, blocks, &lanes[p]);
  }
  tables_are_written(lanes);
  memset(g->ret, 0, g->row_count * sizeof(float));
  const uint32_t groups = g->row_count / GEMV_ROWS * blocks;
  for (uint32_t i = 0; i < groups; i++) {
    add_products(group(g->rows + (size_t)i * 8 * bytes, &lanes[i % patterns]), has_minima, 8 * i, blocks, g->ret);
  }
}

/* Definitions for one variant: a format each, and the four whose codes are looked up or a nibble. */
#define GEMV_BLOCKS(format, isa, ...) \
  void gemv_q8_##format##_##isa(const gemv_q8 *g) { gemv_blocks((gemv_format){__VA_ARGS__}, g); }
#define GEMV_SUPER_BLOCKS(format, isa, bytes, has_minima) \
  void gemv_q8_##format##_##isa(const gemv_q8 *g) { gemv_super_blocks(g, (bytes), group_##format, (has_minima)); }
#define GEMV_LOOKED_UP(isa) \
  GEMV_BLOCKS(Q4_0, isa, 144, 2, 18, dot_Q4_0, scales_f16, 8) \
  GEMV_BLOCKS(IQ4_NL, isa, 144, 2, 18, dot_IQ4, scales_f16, 0) \
  GEMV_BLOCKS(MXFP4, isa, 136, 1, 17, dot_MXFP4, scales_e8m0, 12) \
  GEMV_BLOCKS(IQ4_XS, isa, 136, 8, 16, dot_IQ4, scales_IQ4_XS, 0)

#endif
