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

typedef void (*unpack_fn)(const uint8_t *const *rows, uint32_t first, uint32_t blocks, const tile_part *t);

/* `blocks` blocks of 32 columns from column `first` on; `zero`: see tile_part. */
INLINE void unpack_tile(const q8_multiply *m, unpack_fn unpack, uint8_t zero, uint32_t first, uint32_t blocks, tile *t) {
#pragma GCC unroll 1
  for (uint32_t half = 0; half < 2; half++) {
    const tile_part part = {&t->codes[0][32 * half], &t->scales[0][8 * half], &t->minima[0][8 * half], &t->d[0][8 * half], t->dmin + 8 * half,
                            ROWS, zero};
    unpack(m->rows + 8 * half, first, blocks, &part);
  }
}

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
