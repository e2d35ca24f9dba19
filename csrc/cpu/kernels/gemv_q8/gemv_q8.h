/*
 * gemv_q8.h – weight rows that follow each other in memory times one activation row: decode, which is bound by memory. The arithmetic and
 * the bits are matmul_q8's; its tiles would send every weight through the cache once more. Processors without a variant use matmul_q8.
 */
#ifndef CPU_KERNELS_GEMV_Q8_H
#define CPU_KERNELS_GEMV_Q8_H

#include "cpu/kernels/matmul_q8/matmul_q8.h"

/* Rows come in multiples of GEMV_ROWS; gemv_q8_fits() says for which columns. */
enum { GEMV_ROWS = 8, GEMV_COLS_MAX = 32768 };

typedef struct gemv_q8 {
  const uint8_t *rows; /* of the first row; the others follow without a gap */
  uint32_t row_count, cols;
  uint32_t token; /* which row of x */
  const q8_rows *x;
  float *ret; /* [row_count] */
} gemv_q8;

typedef void (*gemv_q8_fn)(const gemv_q8 *g);

/* Blocks are multiplied eight at a time: they must fill whole rows, or rows must fill whole groups of eight. */
static inline int gemv_q8_fits(uint32_t cols) {
  const uint32_t blocks = cols / Q8_CHUNK;
  return cols > 0 && cols % Q8_CHUNK == 0 && cols <= GEMV_COLS_MAX && (blocks % 8 == 0 || 8 % blocks == 0);
}

#define X(format, block) \
  void gemv_q8_##format##_avx2(const gemv_q8 *g); \
  void gemv_q8_##format##_avx512vnni(const gemv_q8 *g);
MATMUL_Q8_FORMATS(X)
#undef X

#endif
