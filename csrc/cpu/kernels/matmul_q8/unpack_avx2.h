/*
 * unpack_avx2.h – eight weight rows of one chunk from file format to tile, for every x86 variant.
 *
 * In a tile a column quad (four neighbouring columns) of all rows stands together: codes [64 quads][rows][4]. One 32-byte vector then
 * multiplies four columns of eight rows by one broadcast quad of activations, and sums never cross lanes.
 */
#ifndef CPU_KERNELS_MATMUL_Q8_UNPACK_AVX2_H
#define CPU_KERNELS_MATMUL_Q8_UNPACK_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "cpu/kernels/matmul_q8/variants.h"
#include "quant/blocks.h"
#include "quant/tables.h"

enum { QUADS = Q8_CHUNK / 4, GROUPS = Q8_CHUNK / Q8_SUM };

/* Eight rows' part of a tile of `rows` rows; every array is [index][rows]. */
typedef struct tile_part {
  uint8_t *codes;            /* signed where a format has a scale per 32, else from 0 to 63; then less `zero` */
  int32_t *scales, *minima;  /* pairs of int16: (scale, scale) per sub-block; (min, min) per 32, or (scale, scale of the next) in Q6_K */
  float *d, *dmin;           /* d: per 32, or one */
  size_t rows;
  uint8_t zero;              /* taken from every code, modulo 256 */
} tile_part;

static inline __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline __m128i load128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void store_quad(const tile_part *t, uint32_t quad, __m256i codes) {
  _mm256_storeu_si256((__m256i *)(t->codes + quad * t->rows * 4), _mm256_sub_epi8(codes, _mm256_set1_epi8((char)t->zero)));
}
static inline void store_words(int32_t *to, __m256i words) { _mm256_storeu_si256((__m256i *)to, words); }

/* 8 x 8 words: row i of the result holds word i of every input. */
static inline void transpose8(__m256i v[8]) {
  __m256i a[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
  }
  __m256i b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

/* Word i of 16 bytes at `offset` of every row, in result i. */
static inline void transpose4(const uint8_t *const *rows, size_t offset, __m256i ret[4]) {
  __m256i v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(rows[i] + offset)), load128(rows[i + 4] + offset), 1);
  }
  const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]);
  const __m256i b = _mm256_unpackhi_epi32(v[0], v[1]);
  const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]);
  const __m256i d = _mm256_unpackhi_epi32(v[2], v[3]);
  ret[0] = _mm256_unpacklo_epi64(a, c);
  ret[1] = _mm256_unpackhi_epi64(a, c);
  ret[2] = _mm256_unpacklo_epi64(b, d);
  ret[3] = _mm256_unpackhi_epi64(b, d);
}

static inline void load_rows(const uint8_t *const *rows, size_t offset, __m256i ret[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    ret[i] = load256(rows[i] + offset);
  }
  transpose8(ret);
}

/* The low half of every word as float16. */
static inline __m256 low_halves(__m256i words) {
  const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* Composed in general registers: the vector ports are the busy ones. */
static inline uint64_t gather_four(const uint8_t *const *rows, size_t offset) {
  return (uint64_t)read_u16(rows[0] + offset) | (uint64_t)read_u16(rows[1] + offset) << 16 | (uint64_t)read_u16(rows[2] + offset) << 32 |
         (uint64_t)read_u16(rows[3] + offset) << 48;
}

static inline __m256 gather_f16(const uint8_t *const *rows, size_t offset) {
  return _mm256_cvtph_ps(_mm_set_epi64x((long long)gather_four(rows + 4, offset), (long long)gather_four(rows, offset)));
}

static inline __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
static inline __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* Byte `index` of every word twice, as a pair of int16 from 0 to 255. */
static inline __m256i pair_of_byte(__m256i words, int index) {
  const int mask = index | 0x80 << 8 | index << 16 | (int)(0x80u << 24);
  const __m256i offsets = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
  return _mm256_shuffle_epi8(words, _mm256_or_si256(_mm256_set1_epi32(mask), offsets));
}

/* ---- a scale per 32 ---- */

static inline void unpack_Q8_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * 34;
    __m256i v[8];
    load_rows(rows, at + 2, v);
#pragma GCC unroll 8
    for (uint32_t q = 0; q < 8; q++) {
      store_quad(t, b * 8 + q, v[q]);
    }
    _mm256_storeu_ps(t->d + b * t->rows, gather_f16(rows, at));
  }
}

/* Words of the 16 bytes at `at`: their low nibbles are quads 0-3 of block b, their high ones quads 4-7; the table gives the codes. */
static inline __attribute__((always_inline)) void unpack_nibbles(const uint8_t *const *rows, size_t at, uint32_t b, const int8_t *table,
                                                                 const tile_part *t) {
  const __m256i codes = _mm256_broadcastsi128_si256(load128(table));
  __m256i v[4];
  transpose4(rows, at, v);
#pragma GCC unroll 4
  for (uint32_t q = 0; q < 4; q++) {
    store_quad(t, b * 8 + q, _mm256_shuffle_epi8(codes, low_nibbles(v[q])));
    store_quad(t, b * 8 + 4 + q, _mm256_shuffle_epi8(codes, high_nibbles(v[q])));
  }
}

static inline void unpack_Q4_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  static const int8_t table[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * 18;
    unpack_nibbles(rows, at + 2, b, table, t);
    _mm256_storeu_ps(t->d + b * t->rows, gather_f16(rows, at));
  }
}

static inline void unpack_IQ4_NL(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * 18;
    unpack_nibbles(rows, at + 2, b, TABLE_IQ4_NL, t);
    _mm256_storeu_ps(t->d + b * t->rows, gather_f16(rows, at));
  }
}

static inline void unpack_MXFP4(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * 17;
    unpack_nibbles(rows, at + 1, b, TABLE_E2M1_DOUBLED, t);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      t->d[b * t->rows + (size_t)i] = quant_e8m0_half(rows[i][at]);
    }
  }
}

static inline void unpack_IQ4_XS(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  const size_t at = (size_t)(first / 256) * 136;
  (void)blocks; /* rows of this format are whole chunks */
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    const float d = read_f16(rows[i] + at);
    const uint32_t high = read_u16(rows[i] + at + 2);
    const uint32_t low = read_u32(rows[i] + at + 4);
#pragma GCC unroll 8
    for (uint32_t b = 0; b < 8; b++) {
      t->d[b * t->rows + (size_t)i] = d * (float)((int)((low >> (4 * b) & 15) | (high >> (2 * b) & 3) << 4) - 32);
    }
  }
#pragma GCC unroll 8
  for (uint32_t b = 0; b < 8; b++) {
    unpack_nibbles(rows, at + 8 + 16 * b, b, TABLE_IQ4_NL, t);
  }
}

/* ---- blocks of 256 ---- */

/* The 16 bytes that Q4_K and Q5_K begin with: d, dmin and twelve bytes of 6-bit scales and minima. */
static inline void unpack_k_scales(const uint8_t *const *rows, size_t at, const tile_part *t) {
  const __m256i six = _mm256_set1_epi8(63);
  const __m256i two = _mm256_set1_epi8(0x30);
  __m256i v[4];
  transpose4(rows, at, v);
  _mm256_storeu_ps(t->d, low_halves(v[0]));
  _mm256_storeu_ps(t->dmin, low_halves(_mm256_srli_epi32(v[0], 16)));
  const __m256i scales[2] = {_mm256_and_si256(v[1], six),
                             _mm256_or_si256(low_nibbles(v[3]), _mm256_and_si256(_mm256_srli_epi16(v[1], 2), two))};
  const __m256i minima[2] = {_mm256_and_si256(v[2], six),
                             _mm256_or_si256(high_nibbles(v[3]), _mm256_and_si256(_mm256_srli_epi16(v[2], 2), two))};
#pragma GCC unroll 8
  for (int sub = 0; sub < 8; sub++) {
    store_words(t->scales + (size_t)sub * t->rows, pair_of_byte(scales[sub / 4], sub % 4));
    store_words(t->minima + (size_t)sub * t->rows, pair_of_byte(minima[sub / 4], sub % 4));
  }
}

static inline void unpack_Q4_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  const size_t at = (size_t)(first / 256) * 144;
  (void)blocks;
  unpack_k_scales(rows, at, t);
#pragma GCC unroll 4
  for (uint32_t run = 0; run < 4; run++) {
    __m256i v[8];
    load_rows(rows, at + 16 + 32 * run, v);
#pragma GCC unroll 8
    for (uint32_t q = 0; q < 8; q++) {
      store_quad(t, run * 16 + q, low_nibbles(v[q]));
      store_quad(t, run * 16 + 8 + q, high_nibbles(v[q]));
    }
  }
}

static inline void unpack_Q5_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  const size_t at = (size_t)(first / 256) * 176;
  const __m256i sixteen = _mm256_set1_epi8(16);
  (void)blocks;
  unpack_k_scales(rows, at, t);
  __m256i high[8];
  load_rows(rows, at + 16, high);
#pragma GCC unroll 4
  for (uint32_t run = 0; run < 4; run++) {
    __m256i v[8];
    load_rows(rows, at + 48 + 32 * run, v);
#pragma GCC unroll 8
    for (uint32_t q = 0; q < 8; q++) {
      const __m256i bits = _mm256_srl_epi16(high[q], _mm_cvtsi32_si128((int)(2 * run)));
      store_quad(t, run * 16 + q, _mm256_or_si256(low_nibbles(v[q]), _mm256_and_si256(_mm256_slli_epi16(bits, 4), sixteen)));
      store_quad(t, run * 16 + 8 + q, _mm256_or_si256(high_nibbles(v[q]), _mm256_and_si256(_mm256_slli_epi16(bits, 3), sixteen)));
    }
  }
}

static inline void unpack_q6_scales(const uint8_t *const *rows, size_t at, const tile_part *t) {
  __m256i v[4];
  transpose4(rows, at + 192, v);
#pragma GCC unroll 16
  for (int sub = 0; sub < 16; sub++) {
    /* Into the upper byte of each half, then down again with its sign. */
    const __m256i pair = _mm256_slli_epi16(pair_of_byte(v[sub / 4], sub % 4), 8);
    store_words(t->scales + (size_t)sub * t->rows, _mm256_srai_epi16(pair, 8));
  }
#pragma GCC unroll 8
  for (size_t g = 0; g < 8; g++) {
    const __m256i low = load256(t->scales + 2 * g * t->rows);
    const __m256i high = load256(t->scales + (2 * g + 1) * t->rows);
    store_words(t->minima + g * t->rows, _mm256_blend_epi16(low, high, 0xaa));
  }
  _mm256_storeu_ps(t->d, gather_f16(rows, at + 208));
}

static inline void unpack_Q6_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t) {
  const size_t at = (size_t)(first / 256) * 210;
  const __m256i upper = _mm256_set1_epi8(0x30);
  (void)blocks;
  unpack_q6_scales(rows, at, t);
#pragma GCC unroll 2
  for (uint32_t half = 0; half < 2; half++) {
    __m256i high[8];
    load_rows(rows, at + 128 + 32 * half, high);
#pragma GCC unroll 2
    for (uint32_t part = 0; part < 2; part++) {
      __m256i low[8];
      load_rows(rows, at + 64 * half + 32 * part, low);
#pragma GCC unroll 8
      for (uint32_t q = 0; q < 8; q++) {
        const uint32_t quad = half * 32 + part * 8 + q;
        const __m256i bits = part == 0 ? high[q] : _mm256_srli_epi16(high[q], 2);
        store_quad(t, quad, _mm256_or_si256(low_nibbles(low[q]), _mm256_and_si256(_mm256_slli_epi16(bits, 4), upper)));
        store_quad(t, quad + 16, _mm256_or_si256(high_nibbles(low[q]), _mm256_and_si256(bits, upper)));
      }
    }
  }
}

/* The next tile's share of a chunk is fetched while this one is unpacked. */
static inline __attribute__((always_inline)) void prefetch_share(const uint8_t *row, size_t ahead, size_t at, size_t bytes) {
  for (size_t line = 0; line < bytes; line += 64) {
    _mm_prefetch((const char *)row + ahead + at + line, _MM_HINT_T0);
  }
}

#endif
