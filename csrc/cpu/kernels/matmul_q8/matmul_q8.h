/*
 * matmul_q8.h – weight rows in their file format times activations of 8 bits: the inner loop of precision fast.
 *
 * The arithmetic is exact where it can be, so that every variant gives the same bits: integer dot products per block, then float32
 * multiplications and additions in one order, none fused. Per weight row o and activation row t, over blocks b from the start of the row:
 *   formats with a scale per 32 (Q8_0, Q4_0, IQ4_NL, IQ4_XS, MXFP4):  y += (d[o][b] * s[t][b]) * Σ w·x
 *   Q4_K, Q5_K (blocks of 256):  y = (y + (d * s) * Σ_g scale_g Σ w·x) - (dmin * s) * Σ_g min_g Σ x
 *   Q6_K (blocks of 256):        y += (d * s) * Σ_g scale_g Σ (w - 32)·x
 * ref.c is the specification. A variant works on tiles of weight rows, unpacked once per chunk of 256 columns and used for every
 * activation row, in an order that suits its registers.
 */
#ifndef CPU_KERNELS_MATMUL_Q8_H
#define CPU_KERNELS_MATMUL_Q8_H

#include <stddef.h>
#include <stdint.h>

/* X(format, activation block): the formats that have kernels; the others are computed in float32 from decoded rows. */
#define MATMUL_Q8_FORMATS(X) \
  X(Q8_0, 32) X(Q4_0, 32) X(IQ4_NL, 32) X(MXFP4, 32) X(IQ4_XS, 32) \
  X(Q4_K, 256) X(Q5_K, 256) X(Q6_K, 256)

enum { Q8_CHUNK = 256, Q8_SUM = 16, Q8_TILE_ROWS_MAX = 16 };

/* Activations in blocks of 32 or 256 with one scale each: value = scale * code, codes from -127 to 127 (quantise_q8.h). */
typedef struct q8_rows {
  int8_t *codes;  /* [rows][code_stride] */
  float *scales;  /* [rows][scale_stride], one per block */
  int16_t *sums;  /* [rows][sum_stride], of 16 codes each */
  size_t code_stride, scale_stride, sum_stride;
} q8_rows;

typedef struct q8_multiply {
  const uint8_t *rows[Q8_TILE_ROWS_MAX]; /* as many as the variant's tile has; a short tile repeats its last row */
  size_t ahead;  /* bytes from these rows to those of the next tile, for prefetching; 0: there is none */
  uint32_t cols; /* a multiple of the format's block */
  uint32_t count; /* activation rows, at least 1 */
  const uint32_t *tokens; /* which rows of x */
  const q8_rows *x;
  float *ret; /* [count][tile rows] */
} q8_multiply;

typedef void (*matmul_q8_fn)(const q8_multiply *m);

#endif
