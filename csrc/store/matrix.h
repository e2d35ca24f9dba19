/*
 * matrix.h – how a weight matrix looks to a kernel: runs of quantised rows somewhere in mapped memory.
 *
 * A matrix may consist of several runs (fused, split or interleaved checkpoints); a row lies in exactly one. Runs are sorted by
 * row_first and cover rows 0 … rows-1 without a gap. A matrix owns nothing: the store that made it keeps the mapping alive.
 */
#ifndef STORE_MATRIX_H
#define STORE_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "quant/format.h"

typedef struct matrix_scale {
  const uint8_t *data; /* NULL: none */
  const quant_format *format;
  uint32_t kind; /* surge_scale_kind */
  uint32_t row_first; /* of the run, in the tensor that the scales belong to */
  uint32_t cols;
} matrix_scale;

typedef struct matrix_run {
  const uint8_t *blocks;
  const quant_format *format;
  size_t row_bytes;
  uint32_t row_first, rows;
  matrix_scale scale;
} matrix_run;

typedef struct matrix {
  uint32_t rows, cols, run_count;
  const matrix_run *runs;
} matrix;

/* Where row `row` lies. */
const uint8_t *matrix_row(const matrix *m, uint32_t row);
/* Decodes row `row` of the matrix into ret_values[cols], in float32, scales applied. */
void matrix_decode_row(const matrix *m, uint32_t row, float *ret_values);
/* The same values where they lie; NULL unless they are stored as float32, unscaled and aligned. */
const float *matrix_float_row(const matrix *m, uint32_t row);

#endif
