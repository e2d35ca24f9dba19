/*
 * matmul.h – y = x Wᵀ in float32 from dequantised weights (precision exact).
 *
 * A weight row is decoded once per step and used for every row of x. An output row is computed by one worker alone with a fixed
 * order of sums, so results depend neither on the number of threads nor on what else is in the step.
 */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "cpu/pool/pool.h"
#include "store/matrix.h"

typedef struct matmul_job {
  const matrix *weight;
  const float *x; /* [rows][x_stride] */
  float *y;       /* [rows][y_stride] */
  size_t x_stride, y_stride;
  uint32_t rows;
} matmul_job;

/* Memory a worker has for itself. */
typedef struct worker_buffers {
  float *base;
  size_t stride; /* floats per worker */
} worker_buffers;

static inline float *worker_buffer(const worker_buffers *b, uint32_t worker) { return b->base + (size_t)worker * b->stride; }

/* Runs all jobs in one dispatch. Each worker needs a buffer of the widest weight's cols. */
void matmul_run(pool *p, const worker_buffers *buffers, const matmul_job *jobs, uint32_t job_count);

#endif
