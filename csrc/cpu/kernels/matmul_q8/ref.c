/* ref.c – the specification: one weight row, one chunk, one activation row after the other, in plain C. Tile of 4 rows. */
#include <string.h>

#include "cpu/kernels/matmul_q8/variants.h"
#include "quant/blocks.h"
#include "quant/tables.h"

enum { REF_ROWS = 4, GROUPS = Q8_CHUNK / Q8_SUM };

/* A chunk of a row: codes, and either a float scale per 32 or integer scales and minima per 16 under one float scale. */
typedef struct ref_chunk {
  int codes[Q8_CHUNK];
  float block_scales[Q8_CHUNK / 32];
  int scales[GROUPS], minima[GROUPS];
  float d, dmin;
} ref_chunk;

/* Unpacks `elements` columns (a multiple of 32) beginning at column `first`. */
typedef void (*ref_unpack)(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret);

static void unpack_Q8_0(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  for (uint32_t i = 0; i < elements; i++) {
    const uint8_t *block = row + (first + i) / 32 * 34;
    ret->block_scales[i / 32] = read_f16(block);
    ret->codes[i] = (int8_t)block[2 + i % 32];
  }
}

/* Sixteen bytes: low nibbles are elements 0-15 of a block, high nibbles 16-31. */
static int nibble(const uint8_t *bytes, uint32_t element) { return bytes[element % 16] >> (element / 16 * 4) & 15; }

static void unpack_Q4_0(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  for (uint32_t i = 0; i < elements; i++) {
    const uint8_t *block = row + (first + i) / 32 * 18;
    ret->block_scales[i / 32] = read_f16(block);
    ret->codes[i] = nibble(block + 2, i % 32) - 8;
  }
}

static void unpack_IQ4_NL(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  for (uint32_t i = 0; i < elements; i++) {
    const uint8_t *block = row + (first + i) / 32 * 18;
    ret->block_scales[i / 32] = read_f16(block);
    ret->codes[i] = TABLE_IQ4_NL[nibble(block + 2, i % 32)];
  }
}

static void unpack_MXFP4(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  for (uint32_t i = 0; i < elements; i++) {
    const uint8_t *block = row + (first + i) / 32 * 17;
    ret->block_scales[i / 32] = quant_e8m0_half(block[0]);
    ret->codes[i] = TABLE_E2M1_DOUBLED[nibble(block + 1, i % 32)];
  }
}

static void unpack_IQ4_XS(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  const uint8_t *block = row + first / 256 * 136;
  for (uint32_t i = 0; i < elements; i++) {
    const uint32_t sub = i / 32;
    const int low = block[4 + sub / 2] >> (4 * (sub % 2)) & 15;
    const int high = read_u16(block + 2) >> (2 * sub) & 3;
    ret->block_scales[sub] = read_f16(block) * (float)((low | high << 4) - 32);
    ret->codes[i] = TABLE_IQ4_NL[nibble(block + 8 + 16 * sub, i % 32)];
  }
}

static void unpack_k_scales(const uint8_t *block, ref_chunk *ret) {
  const uint8_t *s = block + 4;
  ret->d = read_f16(block);
  ret->dmin = read_f16(block + 2);
  for (int g = 0; g < GROUPS; g++) {
    const int sub = g / 2;
    ret->scales[g] = sub < 4 ? s[sub] & 63 : (s[sub + 4] & 15) | (s[sub - 4] >> 6) << 4;
    ret->minima[g] = sub < 4 ? s[sub + 4] & 63 : (s[sub + 4] >> 4) | (s[sub] >> 6) << 4;
  }
}

static void unpack_Q4_K(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  const uint8_t *block = row + first / 256 * 144;
  unpack_k_scales(block, ret);
  for (uint32_t i = 0; i < elements; i++) {
    ret->codes[i] = block[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
  }
}

static void unpack_Q5_K(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  const uint8_t *block = row + first / 256 * 176;
  unpack_k_scales(block, ret);
  for (uint32_t i = 0; i < elements; i++) {
    const int low = block[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    ret->codes[i] = low | (block[16 + i % 32] >> (i / 32) & 1) << 4;
  }
}

static void unpack_Q6_K(const uint8_t *row, uint32_t first, uint32_t elements, ref_chunk *ret) {
  const uint8_t *block = row + first / 256 * 210;
  ret->d = read_f16(block + 208);
  ret->dmin = 0;
  for (uint32_t i = 0; i < elements; i++) {
    const uint32_t half = i / 128;
    const uint32_t run = i % 128 / 32;
    const int low = block[64 * half + 32 * (run % 2) + i % 32] >> (run / 2 * 4) & 15;
    const int high = block[128 + 32 * half + i % 32] >> (2 * run) & 3;
    ret->codes[i] = (low | high << 4) - 32;
    ret->scales[i / Q8_SUM] = (int8_t)block[192 + i / Q8_SUM];
    ret->minima[i / Q8_SUM] = 0;
  }
}

static int32_t dot_codes(const int *w, const int8_t *x, uint32_t n) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum += w[i] * x[i];
  }
  return sum;
}

static float add_blocks(const ref_chunk *c, const int8_t *x, const float *scales, uint32_t elements, float y) {
  for (uint32_t b = 0; b < elements / 32; b++) {
    y += (c->block_scales[b] * scales[b]) * (float)dot_codes(c->codes + 32 * b, x + 32 * b, 32);
  }
  return y;
}

static float add_super_block(const ref_chunk *c, const int8_t *x, float scale, int has_minima, float y) {
  int32_t sum = 0;
  int32_t minimum = 0;
  for (int g = 0; g < GROUPS; g++) {
    static const int ones[Q8_SUM] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    sum += c->scales[g] * dot_codes(c->codes + Q8_SUM * g, x + Q8_SUM * g, Q8_SUM);
    minimum += c->minima[g] * dot_codes(ones, x + Q8_SUM * g, Q8_SUM);
  }
  y += (c->d * scale) * (float)sum;
  return has_minima ? y - (c->dmin * scale) * (float)minimum : y;
}

static void multiply(const q8_multiply *m, ref_unpack unpack, uint32_t block, int has_minima) {
  memset(m->ret, 0, (size_t)m->count * REF_ROWS * sizeof(float));
  for (uint32_t o = 0; o < REF_ROWS; o++) {
    for (uint32_t first = 0; first < m->cols; first += Q8_CHUNK) {
      const uint32_t elements = m->cols - first < Q8_CHUNK ? m->cols - first : Q8_CHUNK;
      ref_chunk chunk;
      unpack(m->rows[o], first, elements, &chunk);
      for (uint32_t i = 0; i < m->count; i++) {
        const int8_t *x = m->x->codes + m->tokens[i] * m->x->code_stride + first;
        const float *scales = m->x->scales + m->tokens[i] * m->x->scale_stride + first / block;
        float *y = &m->ret[(size_t)i * REF_ROWS + o];
        *y = block == 32 ? add_blocks(&chunk, x, scales, elements, *y) : add_super_block(&chunk, x, scales[0], has_minima, *y);
      }
    }
  }
}

#define HAS_MINIMA_Q8_0 0
#define HAS_MINIMA_Q4_0 0
#define HAS_MINIMA_IQ4_NL 0
#define HAS_MINIMA_MXFP4 0
#define HAS_MINIMA_IQ4_XS 0
#define HAS_MINIMA_Q4_K 1
#define HAS_MINIMA_Q5_K 1
#define HAS_MINIMA_Q6_K 0
#define X(format, block) \
  void matmul_q8_##format##_ref(const q8_multiply *m) { multiply(m, unpack_##format, (block), HAS_MINIMA_##format); }
MATMUL_Q8_FORMATS(X)
#undef X
