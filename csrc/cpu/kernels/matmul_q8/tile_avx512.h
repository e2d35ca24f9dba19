/*
 * tile_avx512.h – a chunk of sixteen weight rows, for the x86 variants with registers of 64 bytes. It is unpacked in halves of eight rows,
 * and one vector holds a column quad of all sixteen.
 */
#ifndef CPU_KERNELS_MATMUL_Q8_TILE_AVX512_H
#define CPU_KERNELS_MATMUL_Q8_TILE_AVX512_H

#include "cpu/kernels/matmul_q8/unpack_avx2.h"

enum { ROWS = 16, BLOCKS = Q8_CHUNK / 32 };

typedef struct tile {
  _Alignas(64) uint8_t codes[QUADS][ROWS * 4];
  _Alignas(64) int32_t scales[GROUPS][ROWS];
  _Alignas(64) int32_t minima[GROUPS / 2][ROWS];
  _Alignas(64) float d[BLOCKS][ROWS];
  _Alignas(64) float dmin[ROWS];
} tile;

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i load512(const void *p) { return _mm512_load_si512(p); }

/* The integer scales of group g, which the tile holds twice in each word. */
INLINE __m512i load_scales(const tile *t, uint32_t g) { return _mm512_srai_epi32(load512(t->scales[g]), 16); }

INLINE __m512i broadcast512(const void *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

/* 32 bytes of which only the first `bytes` may be read: what belongs to the columns of a chunk. The others are zero. */
INLINE __m256i load_part(const void *p, size_t bytes) {
  if (bytes == 32) {
    return load256(p);
  }
  _Alignas(32) uint8_t part[32] = {0};
  memcpy(part, p, bytes);
  return load256(part);
}

/* ---- from file format to tile: sixteen rows at once for the formats that matter most, halves of eight for the others ---- */

/* Words of the 16 bytes at `at` of sixteen rows: quad q of all rows in result q. Quarters are composed by loads, which shuffles need not. */
INLINE void transpose16(const uint8_t *const *rows, size_t at, __m512i ret[4]) {
  __m512i v[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) {
    v[r] = _mm512_inserti32x4(_mm512_castsi128_si512(load128(rows[r] + at)), load128(rows[4 + r] + at), 1);
    v[r] = _mm512_inserti32x4(v[r], load128(rows[8 + r] + at), 2);
    v[r] = _mm512_inserti32x4(v[r], load128(rows[12 + r] + at), 3);
  }
  const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]);
  const __m512i b = _mm512_unpackhi_epi32(v[0], v[1]);
  const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]);
  const __m512i d = _mm512_unpackhi_epi32(v[2], v[3]);
  ret[0] = _mm512_unpacklo_epi64(a, c);
  ret[1] = _mm512_unpackhi_epi64(a, c);
  ret[2] = _mm512_unpacklo_epi64(b, d);
  ret[3] = _mm512_unpackhi_epi64(b, d);
}

INLINE tile_part half_of(tile *t, uint32_t half, uint8_t zero) {
  return (tile_part){&t->codes[0][32 * half], &t->scales[0][8 * half], &t->minima[0][8 * half], &t->d[0][8 * half], t->dmin + 8 * half, ROWS,
                     zero};
}

/* Where a format's columns lie, how they are unpacked, and what is taken from every code (see tile_part). */
typedef void (*unpack_fn)(const uint8_t *const *rows, uint32_t first, uint32_t blocks, uint8_t zero, tile *t);

typedef struct tile_format {
  unpack_fn unpack;
  size_t block_bytes;
  uint32_t block;
  uint8_t zero;
} tile_format;

INLINE void unpack16_Q8_0(const uint8_t *const *rows, uint32_t first, uint32_t blocks, uint8_t zero, tile *t) {
  const __m512i low = _mm512_set1_epi8((char)zero);
  for (uint32_t b = 0; b < blocks; b++) {
    const size_t at = (size_t)(first / 32 + b) * 34;
#pragma GCC unroll 2
    for (uint32_t part = 0; part < 2; part++) {
      __m512i v[4];
      transpose16(rows, at + 2 + 16 * part, v);
#pragma GCC unroll 4
      for (uint32_t q = 0; q < 4; q++) {
        _mm512_store_si512(t->codes[b * 8 + part * 4 + q], _mm512_sub_epi8(v[q], low));
      }
    }
    _mm256_store_ps(t->d[b], gather_f16(rows, at));
    _mm256_store_ps(t->d[b] + 8, gather_f16(rows + 8, at));
  }
}

INLINE void unpack16_Q4_K(const uint8_t *const *rows, uint32_t first, uint32_t blocks, uint8_t zero, tile *t) {
  const size_t at = (size_t)(first / 256) * 144;
  const __m512i nibble = _mm512_set1_epi8(15);
  const tile_part low_rows = half_of(t, 0, zero);
  const tile_part high_rows = half_of(t, 1, zero);
  (void)blocks;
  unpack_k_scales(rows, at, &low_rows);
  unpack_k_scales(rows + 8, at, &high_rows);
#pragma GCC unroll 1
  for (uint32_t run = 0; run < 4; run++) {
#pragma GCC unroll 2
    for (uint32_t part = 0; part < 2; part++) {
      __m512i v[4];
      transpose16(rows, at + 16 + 32 * run + 16 * part, v);
#pragma GCC unroll 4
      for (uint32_t q = 0; q < 4; q++) {
        _mm512_store_si512(t->codes[run * 16 + part * 4 + q], _mm512_and_si512(v[q], nibble));
        _mm512_store_si512(t->codes[run * 16 + 8 + part * 4 + q], _mm512_and_si512(_mm512_srli_epi16(v[q], 4), nibble));
      }
    }
  }
}

#define IN_HALVES(format) \
  INLINE void unpack16_##format(const uint8_t *const *rows, uint32_t first, uint32_t blocks, uint8_t zero, tile *t) { \
    _Pragma("GCC unroll 1") for (uint32_t half = 0; half < 2; half++) { \
      const tile_part part = half_of(t, half, zero); \
      unpack_##format(rows + 8 * half, first, blocks, &part); \
    } \
  }
IN_HALVES(Q4_0)
IN_HALVES(IQ4_NL)
IN_HALVES(MXFP4)
IN_HALVES(IQ4_XS)
IN_HALVES(Q5_K)
IN_HALVES(Q6_K)

/*
 * A share of the next tile as large as these columns are of this one, to be fetched while they are multiplied: a few lines at a time, since
 * all at once would fill the queue of pending lines and stand still; and in the order of memory, which the second-level prefetcher follows.
 */
typedef struct tile_fetch {
  const uint8_t *from;
  size_t lines;
} tile_fetch;

INLINE tile_fetch fetch_of(const q8_multiply *m, uint32_t first, uint32_t elements) {
  const size_t at = m->ahead * first / m->cols;
  return (tile_fetch){m->rows[0] + m->ahead + at, (m->ahead * elements / m->cols + 63) / 64};
}

INLINE void fetch_part(const tile_fetch *f, uint32_t part, uint32_t parts) {
  for (size_t line = f->lines * part / parts; line < f->lines * (part + 1) / parts; line++) {
    _mm_prefetch((const char *)f->from + line * 64, _MM_HINT_T1);
  }
}

#endif
