/*
 * amx.c – sixteen weight rows times sixteen activation rows per instruction; with fewer activation rows, avx512vnni.c. tdpbssd multiplies
 * signed bytes by signed bytes: its first operand holds activation rows as they lie, its second one column quad per row, which is a tile's
 * layout. Every group of columns that shares a scale is summed by itself and scaled in vectors, which take longer than the sums.
 */
#include "cpu/kernels/matmul_q8/tile_avx512.h"

enum { TOKENS = 16 };

/* As ldtilecfg reads it. Tiles 0 and 1 are sums, 2 and 3 activations, 4 and 5 weights: one set is filled while the other is computed. */
typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

#define CONFIG(columns) \
  {1, 0, {0}, {64, 64, (columns), (columns), 64, 64}, {TOKENS, TOKENS, TOKENS, TOKENS, (columns) / 4, (columns) / 4}}
static const tile_config COLUMNS_32 = CONFIG(32);
static const tile_config COLUMNS_16 = CONFIG(16);

/* A chunk of sixteen activation rows; where there are fewer, the last one stands for the missing. */
typedef struct token_group {
  _Alignas(64) int8_t copy[TOKENS][Q8_CHUNK];
  _Alignas(64) int32_t sums[2][TOKENS][ROWS]; /* of two groups of columns */
  _Alignas(64) float scales[TOKENS][BLOCKS];
  const int8_t *codes; /* the rows themselves where they are neighbours, else `copy` */
  size_t stride;
  uint32_t tokens[TOKENS];
  uint32_t at, count;
} token_group;

INLINE void gather_codes(const q8_multiply *m, uint32_t first, uint32_t elements, token_group *g) {
  int is_run = g->count == TOKENS;
  for (uint32_t j = 0; j < TOKENS; j++) {
    g->tokens[j] = m->tokens[g->at + (j < g->count ? j : g->count - 1)];
    is_run = is_run && g->tokens[j] == g->tokens[0] + j;
  }
  g->codes = is_run ? m->x->codes + g->tokens[0] * m->x->code_stride + first : g->copy[0];
  g->stride = is_run ? m->x->code_stride : Q8_CHUNK;
  for (uint32_t j = 0; j < TOKENS && !is_run; j++) {
    memcpy(g->copy[j], m->x->codes + g->tokens[j] * m->x->code_stride + first, elements);
  }
}

/* The intrinsics do not tell every compiler that tiles read memory: what they read is written before. */
INLINE void tiles_read(const tile *t, const token_group *g) { __asm__ volatile("" : : "r"(t), "r"(g) : "memory"); }

#define MULTIPLY_TILES(sum, x, w, from_x, stride, from_w, to) \
  do { \
    _tile_zero(sum); \
    _tile_loadd(x, (from_x), (stride)); \
    _tile_loadd(w, (from_w), ROWS * 4); \
    _tile_dpbssd(sum, x, w); \
    _tile_stored(sum, (to), ROWS * 4); \
  } while (0)

/* sums[index % 2][activation row][weight row] over the columns of group `index`, `quads` quads each. */
INLINE void sum_group(const tile *t, token_group *g, uint32_t index, uint32_t quads) {
  const uint32_t quad = index * quads;
  if (index % 2 == 0) {
    MULTIPLY_TILES(0, 2, 4, g->codes + quad * 4, g->stride, t->codes[quad], g->sums[0]);
  } else {
    MULTIPLY_TILES(1, 3, 5, g->codes + quad * 4, g->stride, t->codes[quad], g->sums[1]);
  }
}

static void blocks_of_32(const tile *t, const q8_multiply *m, token_group *g, uint32_t first, uint32_t blocks) {
  __m512 y[TOKENS];
#pragma GCC unroll 16
  for (uint32_t j = 0; j < TOKENS; j++) {
    const __m256i part = load_part(m->x->scales + g->tokens[j] * m->x->scale_stride + first / 32, blocks * sizeof(float));
    _mm256_store_si256((__m256i *)g->scales[j], part);
    y[j] = _mm512_loadu_ps(m->ret + (size_t)(g->at + (j < g->count ? j : g->count - 1)) * ROWS);
  }
  tiles_read(t, g);
  sum_group(t, g, 0, 8);
  for (uint32_t b = 0; b < blocks; b++) {
    if (b + 1 < blocks) {
      sum_group(t, g, b + 1, 8);
    }
    const __m512 d = _mm512_load_ps(t->d[b]);
#pragma GCC unroll 16
    for (uint32_t j = 0; j < TOKENS; j++) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(g->scales[j][b]));
      y[j] = _mm512_add_ps(y[j], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(load512(g->sums[b % 2][j]))));
    }
  }
#pragma GCC unroll 16
  for (uint32_t j = 0; j < TOKENS; j++) {
    if (j < g->count) {
      _mm512_storeu_ps(m->ret + (size_t)(g->at + j) * ROWS, y[j]);
    }
  }
}

/* total[j] = Σ scale Σ w·x over the chunk; `quads` quads share a scale. */
INLINE void sum_super_block(const tile *t, token_group *g, uint32_t quads, __m512i *total) {
#pragma GCC unroll 16
  for (uint32_t j = 0; j < TOKENS; j++) {
    total[j] = _mm512_setzero_si512();
  }
  tiles_read(t, g);
  sum_group(t, g, 0, quads);
  for (uint32_t index = 0; index < QUADS / quads; index++) {
    if (index + 1 < QUADS / quads) {
      sum_group(t, g, index + 1, quads);
    }
    const __m512i scale = load_scales(t, index);
#pragma GCC unroll 16
    for (uint32_t j = 0; j < TOKENS; j++) {
      total[j] = _mm512_add_epi32(total[j], _mm512_mullo_epi32(load512(g->sums[index % 2][j]), scale));
    }
  }
}

/* Takes (dmin * s) * Σ min Σ x from ret, for one activation row. */
INLINE void subtract_minima(const tile *t, const int16_t *sums, __m512 scale, float *ret) {
  __m512i minimum = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (uint32_t i = 0; i < GROUPS / 2; i++) {
    minimum = _mm512_dpwssd_epi32(minimum, load512(t->minima[i]), broadcast512(sums + 2 * i));
  }
  const __m512 dmin = _mm512_mul_ps(_mm512_load_ps(t->dmin), scale);
  _mm512_storeu_ps(ret, _mm512_sub_ps(_mm512_loadu_ps(ret), _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(minimum))));
}

INLINE void multiply_super_block(const tile *t, const q8_multiply *m, token_group *g, uint32_t first, uint32_t quads, int has_minima) {
  __m512i total[TOKENS];
  sum_super_block(t, g, quads, total);
  const __m512 d = _mm512_load_ps(t->d[0]);
#pragma GCC unroll 16
  for (uint32_t j = 0; j < TOKENS; j++) {
    if (j < g->count) {
      float *ret = m->ret + (size_t)(g->at + j) * ROWS;
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(m->x->scales[g->tokens[j] * m->x->scale_stride + first / Q8_CHUNK]));
      _mm512_storeu_ps(ret, _mm512_add_ps(_mm512_loadu_ps(ret), _mm512_mul_ps(scale, _mm512_cvtepi32_ps(total[j]))));
    }
  }
  for (uint32_t j = 0; has_minima && j < g->count; j++) {
    const __m512 scale = _mm512_set1_ps(m->x->scales[g->tokens[j] * m->x->scale_stride + first / Q8_CHUNK]);
    const int16_t *sums = m->x->sums + g->tokens[j] * m->x->sum_stride + first / Q8_SUM;
    subtract_minima(t, sums, scale, m->ret + (size_t)(g->at + j) * ROWS);
  }
}

static void super_block_q4(const tile *t, const q8_multiply *m, token_group *g, uint32_t first, uint32_t blocks) {
  (void)blocks;
  multiply_super_block(t, m, g, first, 8, 1);
}

static void super_block_q6(const tile *t, const q8_multiply *m, token_group *g, uint32_t first, uint32_t blocks) {
  (void)blocks;
  multiply_super_block(t, m, g, first, 4, 0);
}

typedef void (*multiply_fn)(const tile *t, const q8_multiply *m, token_group *g, uint32_t first, uint32_t blocks);

INLINE void multiply(const q8_multiply *m, unpack_fn unpack, uint8_t zero, multiply_fn multiply_tile, const tile_config *config) {
  tile t;
  token_group g;
  _tile_loadconfig(config);
  memset(m->ret, 0, (size_t)m->count * ROWS * sizeof(float));
  for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
    const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
    const tile_fetch fetch = fetch_of(m, first, elements);
    fetch_part(&fetch, 0, 1);
    unpack_tile(m, unpack, zero, first, elements / 32, &t);
    for (g.at = 0; g.at < m->count; g.at += TOKENS) {
      g.count = m->count - g.at < TOKENS ? m->count - g.at : TOKENS;
      gather_codes(m, first, elements, &g);
      multiply_tile(&t, m, &g, first, elements / 32);
    }
  }
  _tile_release();
}

/* Codes are signed in the tile: Q6_K's are made so, those of Q4_K and Q5_K are small. */
#define VARIANT(format, multiply_tile, config, zero) \
  void matmul_q8_##format##_amx_int8(const q8_multiply *m) { \
    if (m->count < TOKENS) { \
      matmul_q8_##format##_avx512vnni(m); \
      return; \
    } \
    multiply(m, unpack_##format, (zero), multiply_tile, &(config)); \
  }
VARIANT(Q8_0, blocks_of_32, COLUMNS_32, 0)
VARIANT(Q4_0, blocks_of_32, COLUMNS_32, 0)
VARIANT(IQ4_NL, blocks_of_32, COLUMNS_32, 0)
VARIANT(MXFP4, blocks_of_32, COLUMNS_32, 0)
VARIANT(IQ4_XS, blocks_of_32, COLUMNS_32, 0)
VARIANT(Q4_K, super_block_q4, COLUMNS_32, 0)
VARIANT(Q5_K, super_block_q4, COLUMNS_32, 0)
VARIANT(Q6_K, super_block_q6, COLUMNS_16, 32)
