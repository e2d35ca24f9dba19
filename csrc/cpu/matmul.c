/* matmul.c – see matmul.h. Owns nothing; allocates nothing. */
#include "cpu/matmul.h"

#include "cpu/kernels/dot_f32/dot_f32.h"

typedef struct matmul_task {
  const worker_buffers *buffers;
  const matmul_job *jobs;
  uint32_t job_count;
} matmul_task;

static void multiply_rows(const matmul_job *job, uint32_t begin, uint32_t end, float *decoded) {
  const matrix *w = job->weight;
  for (uint32_t o = begin; o < end; o++) {
    matrix_decode_row(w, o, decoded);
    for (uint32_t r = 0; r < job->rows; r++) {
      job->y[r * job->y_stride + o] = dot_f32(decoded, job->x + r * job->x_stride, w->cols);
    }
  }
}

static void run_share(void *context, uint32_t worker, uint32_t workers) {
  const matmul_task *task = context;
  for (uint32_t j = 0; j < task->job_count; j++) {
    uint32_t begin = 0;
    uint32_t end = 0;
    pool_range(task->jobs[j].weight->rows, worker, workers, 1, &begin, &end);
    multiply_rows(&task->jobs[j], begin, end, worker_buffer(task->buffers, worker));
  }
}

void matmul_run(pool *p, const worker_buffers *buffers, const matmul_job *jobs, uint32_t job_count) {
  matmul_task task = {buffers, jobs, job_count};
  pool_run(p, run_share, &task);
}
