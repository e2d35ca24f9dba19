/*
 * gemv_avx2.h – eight weight rows times one activation row, for every x86 variant: decode is bound by memory, and the tile's detour through
 * the cache costs more than it saves when a tile is used once. Rows are multiplied as they lie in the file, along the columns; the eight
 * sums of a block are then brought into one vector, so that floats are as in the tile.
 */
#ifndef CPU_KERNELS_MATMUL_Q8_GEMV_AVX2_H
#define CPU_KERNELS_MATMUL_Q8_GEMV_AVX2_H

#include "cpu/kernels/matmul_q8/unpack_avx2.h"

#define GEMV_INLINE static inline __attribute__((always_inline))

/* A chunk of one activation row, and where the next tile's weights begin. */
typedef struct gemv_x {
  const int8_t *codes;
  const float *scales;
  const int16_t *sums;
  const uint8_t *next;
} gemv_x;

/*
 * The next tile's share of a block is fetched while this tile's is multiplied, a few lines with each row so that the processor's queue of
 * misses never fills: eight streams are too many for its own prefetcher. A tile's rows follow each other, so its share is one run of bytes.
 */
GEMV_INLINE void prefetch_share(const uint8_t *next, size_t at, size_t bytes, uint32_t row) {
  const size_t lines = (8 * bytes + 63) / 64;
#pragma GCC unroll 4
  for (size_t line = lines * row / 8; line < lines * (row + 1) / 8; line++) {
    _mm_prefetch((const char *)next + 8 * at + line * 64, _MM_HINT_T0);
  }
}

/*
 * Word i of the result: the sum of the eight words of `row(i)`. Each pair of rows is added at once, so that few sums are alive at a time.
 */
#define SUM_FOUR(row, i) \
  _mm256_hadd_epi32(_mm256_hadd_epi32(row(i), row((i) + 1)), _mm256_hadd_epi32(row((i) + 2), row((i) + 3)))
#define SUM_ROWS(row, ret) \
  do { \
    const __m256i low_ = SUM_FOUR(row, 0); \
    const __m256i high_ = SUM_FOUR(row, 4); \
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

/* ---- a scale per 32 ---- */

/* 16 bytes as 32 nibbles: the low ones, then the high ones. */
GEMV_INLINE __m256i spread_nibbles(const uint8_t *p) {
  const __m256i both = _mm256_broadcastsi128_si256(load128(p));
  return low_nibbles(_mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)));
}

GEMV_INLINE __m256i dot_unsigned(__m256i w, __m256i x) { return add_dot(_mm256_setzero_si256(), w, x); }
GEMV_INLINE __m256i dot_signed(__m256i w, __m256i x) { return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }

/* Codes of one row's block at p. `zero` is what unsigned codes stand too high by. */
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

GEMV_INLINE __m256 gather_e8m0(const uint8_t *const *rows, size_t offset) {
  float d[8];
  for (int i = 0; i < 8; i++) {
    d[i] = quant_e8m0_half(rows[i][offset]);
  }
  return _mm256_loadu_ps(d);
}

typedef __m256 (*gemv_scales)(const uint8_t *const *rows, size_t offset);

GEMV_INLINE __m256i dot_row(const uint8_t *row, size_t at, size_t codes, gemv_dot dot, __m256i activations, const gemv_x *x, size_t block_bytes,
                            uint32_t i) {
  prefetch_share(x->next, at, block_bytes, i);
  return dot(row + at + codes, activations);
}

/* Block at `at` of each row, its codes `codes` bytes further; `block_bytes` are the block's own, without a super-block's head. */
GEMV_INLINE __m256 gemv_block(const uint8_t *const *rows, size_t at, size_t codes, size_t block_bytes, gemv_dot dot, int zero, __m256 d,
                              const gemv_x *x, uint32_t b, __m256 y) {
  const __m256i activations = load256(x->codes + 32 * b);
  __m256i sum;
#define ROW(i) dot_row(rows[i], at, codes, dot, activations, x, block_bytes, (i))
  SUM_ROWS(ROW, sum);
#undef ROW
  if (zero != 0) {
    sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(zero * (x->sums[2 * b] + x->sums[2 * b + 1])));
  }
  const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(x->scales[b]));
  return _mm256_add_ps(y, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum)));
}

GEMV_INLINE __m256 gemv_blocks(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y, size_t block_bytes,
                               size_t codes, gemv_dot dot, gemv_scales scales, int zero) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * block_bytes;
    y = gemv_block(rows, at, codes, block_bytes, dot, zero, scales(rows, at), x, b, y);
  }
  return y;
}

GEMV_INLINE __m256 gemv_Q8_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  return gemv_blocks(rows, first, blocks, x, y, 34, 2, dot_Q8_0, gather_f16, 0);
}
GEMV_INLINE __m256 gemv_Q4_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  return gemv_blocks(rows, first, blocks, x, y, 18, 2, dot_Q4_0, gather_f16, 8);
}
GEMV_INLINE __m256 gemv_IQ4_NL(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  return gemv_blocks(rows, first, blocks, x, y, 18, 2, dot_IQ4, gather_f16, 0);
}
GEMV_INLINE __m256 gemv_MXFP4(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  return gemv_blocks(rows, first, blocks, x, y, 17, 1, dot_MXFP4, gather_e8m0, 12);
}

GEMV_INLINE __m256 gemv_IQ4_XS(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  const size_t at = (size_t)(first / 256) * 136;
  __m256i v[4];
  (void)blocks; /* rows of this format are whole chunks */
  transpose4(rows, at, v); /* words 0 and 1: d, the high bits of all scales, their low bits */
  const __m256 d = low_halves(v[0]);
  const __m256i high = _mm256_srli_epi32(v[0], 16);
  for (int b = 0; b < 8; b++) {
    const __m256i low4 = _mm256_and_si256(_mm256_srl_epi32(v[1], _mm_cvtsi32_si128(4 * b)), _mm256_set1_epi32(15));
    const __m256i high2 = _mm256_and_si256(_mm256_srl_epi32(high, _mm_cvtsi32_si128(2 * b)), _mm256_set1_epi32(3));
    const __m256i scale = _mm256_sub_epi32(_mm256_or_si256(low4, _mm256_slli_epi32(high2, 4)), _mm256_set1_epi32(32));
    y = gemv_block(rows, at + 17 * (size_t)b, 8 - (size_t)b, 17, dot_IQ4, 0, _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale)), x, (uint32_t)b, y);
  }
  return y;
}

/* ---- blocks of 256 ---- */

/* The integer and float scales of eight rows. */
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
GEMV_INLINE void tables_are_written(const gemv_tables *t) { __asm__ volatile("" : : "r"(t) : "memory"); }

GEMV_INLINE tile_part gemv_part(gemv_tables *t) { return (tile_part){NULL, &t->scales[0][0], &t->minima[0][0], t->d, t->dmin, 8, 0}; }

GEMV_INLINE __m256i weigh_minima(const gemv_tables *t, const gemv_x *x) {
  __m256i minimum = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int g = 0; g < GROUPS / 2; g++) {
    minimum = add_words(minimum, load256(t->minima[g]), broadcast32(x->sums + 2 * g));
  }
  return minimum;
}

GEMV_INLINE __m256i add_weighed(__m256i sum, __m256i codes, const int8_t *x, __m256i scale) {
  return add_words(sum, _mm256_maddubs_epi16(codes, load256(x)), scale);
}

GEMV_INLINE __m256i row_Q4_K(const uint8_t *block, const gemv_tables *t, int row, const gemv_x *x) {
  __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int run = 0; run < 4; run++) {
    const __m256i v = load256(block + 16 + 32 * run);
    sum = add_weighed(sum, low_nibbles(v), x->codes + 64 * run, broadcast32(&t->scales[2 * run][row]));
    sum = add_weighed(sum, high_nibbles(v), x->codes + 64 * run + 32, broadcast32(&t->scales[2 * run + 1][row]));
  }
  return sum;
}

GEMV_INLINE __m256i row_Q5_K(const uint8_t *block, const gemv_tables *t, int row, const gemv_x *x) {
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
    sum = add_weighed(sum, low5, x->codes + 64 * run, broadcast32(&t->scales[2 * run][row]));
    sum = add_weighed(sum, high5, x->codes + 64 * run + 32, broadcast32(&t->scales[2 * run + 1][row]));
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
GEMV_INLINE __m256i row_Q6_K(const uint8_t *block, const gemv_tables *t, int row, const gemv_x *x) {
  const __m256i upper = _mm256_set1_epi8(0x30);
  const __m256i scales = _mm256_cvtepi8_epi16(load128(block + 192));
  const __m256i zero = _mm256_slli_epi32(_mm256_madd_epi16(scales, load256(x->sums)), 5);
  __m256i sum = _mm256_sub_epi32(_mm256_setzero_si256(), zero);
  (void)t;
  (void)row;
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
      const int8_t *codes = x->codes + 128 * half + 32 * part;
      sum = add_weighed(sum, low6, codes, spread_pair(eight, part));
      sum = add_weighed(sum, high6, codes + 64, spread_pair(eight, part + 2));
    }
  }
  return sum;
}

typedef __m256i (*gemv_row)(const uint8_t *block, const gemv_tables *t, int row, const gemv_x *x);

GEMV_INLINE __m256i weigh_row(const uint8_t *const *rows, size_t at, size_t block_bytes, gemv_row row, const gemv_tables *t, uint32_t i,
                              const gemv_x *x) {
  prefetch_share(x->next, at, block_bytes, i);
  return row(rows[i] + at, t, (int)i, x);
}

GEMV_INLINE __m256i gemv_rows(const uint8_t *const *rows, size_t at, size_t block_bytes, gemv_row row, const gemv_tables *t, const gemv_x *x) {
  __m256i sum;
#define ROW(i) weigh_row(rows, at, block_bytes, row, t, (i), x)
  SUM_ROWS(ROW, sum);
#undef ROW
  return sum;
}

GEMV_INLINE __m256 gemv_k(const uint8_t *const *rows, size_t at, size_t block_bytes, gemv_row row, const gemv_x *x, __m256 y) {
  gemv_tables t;
  const tile_part part = gemv_part(&t);
  unpack_k_scales(rows, at, &part);
  tables_are_written(&t);
  const __m256 scale = _mm256_set1_ps(x->scales[0]);
  const __m256i sum = gemv_rows(rows, at, block_bytes, row, &t, x);
  y = _mm256_add_ps(y, _mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(t.d), scale), _mm256_cvtepi32_ps(sum)));
  return _mm256_sub_ps(y, _mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(t.dmin), scale), _mm256_cvtepi32_ps(weigh_minima(&t, x))));
}

GEMV_INLINE __m256 gemv_Q4_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  (void)blocks;
  return gemv_k(rows, (size_t)(first / 256) * 144, 144, row_Q4_K, x, y);
}

GEMV_INLINE __m256 gemv_Q5_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  (void)blocks;
  return gemv_k(rows, (size_t)(first / 256) * 176, 176, row_Q5_K, x, y);
}

GEMV_INLINE __m256 gemv_Q6_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y) {
  const size_t at = (size_t)(first / 256) * 210;
  (void)blocks;
  const __m256 scale = _mm256_mul_ps(gather_f16(rows, at + 208), _mm256_set1_ps(x->scales[0]));
  return _mm256_add_ps(y, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(gemv_rows(rows, at, 210, row_Q6_K, NULL, x))));
}

typedef __m256 (*gemv_fn)(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const gemv_x *x, __m256 y);

/* Eight rows times activation row `token`. */
GEMV_INLINE __m256 gemv(const q8_multiply *m, const uint8_t *const *rows, uint32_t token, gemv_fn fn, uint32_t x_block) {
  __m256 y = _mm256_setzero_ps();
  for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
    const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
    const gemv_x x = {m->x->codes + token * m->x->code_stride + first, m->x->scales + token * m->x->scale_stride + first / x_block,
                      m->x->sums + token * m->x->sum_stride + first / Q8_SUM, rows[0] + m->ahead};
    y = fn(rows, first, elements / 32, &x, y);
  }
  return y;
}

#endif
