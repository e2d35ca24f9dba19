/*
 * matmul.h – y = x Wᵀ for any storage format: a weight, the activations it is multiplied by, and tiles of weight rows as units of work.
 *
 * precision fast: weights with a matmul_q8 kernel take activations of 8 bits; all others, and every weight under precision exact, are
 * decoded to float32 row by row. An output value is computed by one worker in one order of sums, so results depend neither on the
 * number of threads nor on what else is in the step.
 */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include <string.h>

#include "base/arena.h"
#include "cpu/dispatch.h"
#include "cpu/pool/pool.h"
#include "store/matrix.h"

typedef struct weight {
  const matrix *matrix;
  uint32_t kernel; /* matmul_q8's, or MATMUL_Q8_NONE: in float32 */
} weight;

/* Rows of activations, and the same in 8 bits where a weight that reads them wants that. */
typedef struct activation {
  float *values; /* [rows][stride] */
  size_t stride;
  q8_rows q8[Q8_BLOCKS_COUNT]; /* codes NULL under precision exact */
} activation;

/* Memory a worker has for itself. */
typedef struct worker_scratch {
  float *row;     /* one decoded weight row, or a step of attention */
  float *tile[2]; /* [matmul_tile_floats()] */
} worker_scratch;

typedef struct matmul_env {
  pool *pool;
  const cpu_kernels *kernels;
  const worker_scratch *workers;
} matmul_env;

typedef struct matmul_job {
  const weight *w;
  const activation *x;
  float *y; /* [count][y_stride] */
  size_t y_stride;
  const uint32_t *tokens; /* which rows of x */
  uint32_t count;
} matmul_job;

/* Floats that matmul_tile() may write for steps of `step_rows` rows. */
size_t matmul_tile_floats(size_t step_rows);
weight weight_make(const matrix *m, uint32_t precision);
/* Bit set of the Q8_BLOCKS_ that the weight reads; 0: float32. */
uint32_t weight_blocks(const weight *w);
uint64_t weight_bytes(const weight *w);

/* Takes memory for `rows` rows of `cols` values; with their 8-bit forms if the precision is fast. */
void activation_reserve(activation *a, size_t rows, size_t cols, uint32_t precision, arena *memory);
/* Row `row` (its first `cols` values) to the forms in `blocks`. */
void activation_quantise(const activation *a, const cpu_kernels *k, uint32_t row, uint32_t cols, uint32_t blocks);

uint32_t matmul_tiles(const cpu_kernels *k, const weight *w);
/* How many tiles from `tile` on, at most `most`, are best computed in one call for `count` rows of activations: at least 1. */
uint32_t matmul_run_length(const cpu_kernels *k, const weight *w, uint32_t count, uint32_t tile, uint32_t most);
/*
 * Tiles [tile, tile + tiles) of w times the activations: ret[count][tiles * kernels->tile_rows], `tiles` as matmul_run_length() says. Returns
 * how many of these rows exist: a matrix may end within its last tile.
 */
uint32_t matmul_tile(const matmul_env *env, uint32_t worker, const weight *w, const activation *x, const uint32_t *tokens, uint32_t count,
                     uint32_t tile, uint32_t tiles, float *ret);
/* What matmul_tile() returned for one activation row goes to its place. A call of the library's memcpy() costs more than the usual 16 floats. */
static inline void matmul_put(float *to, const float *from, uint32_t rows) {
  if (rows == 16) {
    memcpy(to, from, 16 * sizeof(float));
  } else {
    memcpy(to, from, rows * sizeof(float));
  }
}
/* One phase of a task: all jobs' tiles, shared among the workers that call this. */
void matmul_run(const matmul_env *env, uint32_t worker, const matmul_job *jobs, uint32_t job_count);

#endif
