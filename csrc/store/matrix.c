/*
 * matrix.c – decoding one row of a weight matrix to float32, whatever it is stored as.
 *
 * Owns nothing. The product weight x scale is one float32 multiplication, as in the reference (reference implementation of FP8
 * block scales: w = code * scale[row / 128][col / 128]).
 */
#include "store/matrix.h"

#include "surge.h"

enum { SCALE_BLOCK = 128 };

static const matrix_run *find_run(const matrix *m, uint32_t row) {
  uint32_t low = 0;
  uint32_t high = m->run_count;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (m->runs[middle].row_first <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &m->runs[low];
}

const uint8_t *matrix_row(const matrix *m, uint32_t row) {
  const matrix_run *run = find_run(m, row);
  return run->blocks + (row - run->row_first) * run->row_bytes;
}

static float scale_at(const matrix_scale *scale, size_t index) {
  float value;
  scale->format->decode(scale->data + index * scale->format->block_bytes, &value, 1);
  return value;
}

static void apply_scale(const matrix_scale *scale, uint32_t row, float *values, uint32_t cols) {
  if (scale->kind == SURGE_SCALE_TENSOR) {
    const float s = scale_at(scale, 0);
    for (uint32_t c = 0; c < cols; c++) {
      values[c] *= s;
    }
    return;
  }
  const size_t first = (size_t)((scale->row_first + row) / SCALE_BLOCK) * scale->cols;
  for (uint32_t block = 0; block * SCALE_BLOCK < cols; block++) {
    const float s = scale_at(scale, first + block);
    const uint32_t end = cols - block * SCALE_BLOCK < SCALE_BLOCK ? cols : (block + 1) * SCALE_BLOCK;
    for (uint32_t c = block * SCALE_BLOCK; c < end; c++) {
      values[c] *= s;
    }
  }
}

void matrix_decode_row(const matrix *m, uint32_t row, float *ret_values) {
  const matrix_run *run = find_run(m, row);
  const uint32_t local = row - run->row_first;
  run->format->decode(run->blocks + local * run->row_bytes, ret_values, m->cols / run->format->block_elements);
  if (run->scale.data != NULL) {
    apply_scale(&run->scale, local, ret_values, m->cols);
  }
}

const float *matrix_float_row(const matrix *m, uint32_t row) {
  const matrix_run *run = find_run(m, row);
  const uint8_t *stored = run->blocks + (row - run->row_first) * run->row_bytes;
  const int is_plain = run->format->dtype == QUANT_F32 && run->scale.data == NULL && (uintptr_t)stored % _Alignof(float) == 0;
  return is_plain ? (const float *)(const void *)stored : NULL;
}
