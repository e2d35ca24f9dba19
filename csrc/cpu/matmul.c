/* matmul.c – see matmul.h. Allocates nothing after activation_reserve(). */
#include "cpu/matmul.h"

#include <string.h>

/*
 * With few activation rows each goes through the weights by itself, the second time out of the cache; and several tiles at once, since
 * what is made ready of the activations is then used for longer.
 */
enum { GEMV_TOKENS = 2, RUN_TILES = 16 };

size_t matmul_tile_floats(size_t step_rows) {
  const size_t run = (size_t)GEMV_TOKENS * RUN_TILES;
  return (step_rows > run ? step_rows : run) * Q8_TILE_ROWS_MAX;
}

weight weight_make(const matrix *m, uint32_t precision) {
  const uint32_t dtype = m->runs[0].format->dtype;
  for (uint32_t i = 0; i < m->run_count; i++) {
    if (precision == SURGE_PRECISION_EXACT || m->runs[i].scale.data != NULL || m->runs[i].format->dtype != dtype) {
      return (weight){m, MATMUL_Q8_NONE};
    }
  }
  return (weight){m, matmul_q8_find(dtype)};
}

uint32_t weight_blocks(const weight *w) { return w->kernel == MATMUL_Q8_NONE ? 0 : 1u << matmul_q8_blocks(w->kernel); }

uint64_t weight_bytes(const weight *w) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < w->matrix->run_count; i++) {
    bytes += (uint64_t)w->matrix->runs[i].rows * w->matrix->runs[i].row_bytes;
  }
  return bytes;
}

static void reserve_q8(q8_rows *q, size_t rows, size_t cols, size_t block, arena *memory) {
  q->code_stride = (cols + 63) / 64 * 64;
  q->scale_stride = (cols + block - 1) / block;
  q->sum_stride = q->code_stride / Q8_SUM;
  q->codes = arena_take_array(memory, rows, q->code_stride, 64);
  q->scales = arena_take_array(memory, rows, q->scale_stride * sizeof(float), 64);
  q->sums = arena_take_array(memory, rows, q->sum_stride * sizeof(int16_t), 64);
}

void activation_reserve(activation *a, size_t rows, size_t cols, uint32_t precision, arena *memory) {
  *a = (activation){.stride = cols, .values = arena_take_array(memory, rows, cols * sizeof(float), 64)};
  if (precision == SURGE_PRECISION_FAST) {
    reserve_q8(&a->q8[Q8_BLOCKS_32], rows, cols, 32, memory);
    reserve_q8(&a->q8[Q8_BLOCKS_256], rows, cols, 256, memory);
  }
}

void activation_quantise(const activation *a, const cpu_kernels *k, uint32_t row, uint32_t cols, uint32_t blocks) {
  static const uint32_t sizes[Q8_BLOCKS_COUNT] = {32, 256};
  for (uint32_t b = 0; b < Q8_BLOCKS_COUNT; b++) {
    const q8_rows *q = &a->q8[b];
    if (blocks & 1u << b) {
      k->quantise_q8(a->values + row * a->stride, cols, sizes[b], q->codes + row * q->code_stride, q->scales + row * q->scale_stride,
                     q->sums + row * q->sum_stride);
    }
  }
}

uint32_t matmul_tiles(const cpu_kernels *k, const weight *w) { return (w->matrix->rows + k->tile_rows - 1) / k->tile_rows; }

static void tile_q8(const matmul_env *env, const weight *w, const activation *x, const uint32_t *tokens, uint32_t count, uint32_t first,
                    uint32_t rows, float *ret) {
  const uint32_t tile_rows = env->kernels->tile_rows;
  q8_multiply m = {.cols = w->matrix->cols, .count = count, .tokens = tokens, .x = &x->q8[matmul_q8_blocks(w->kernel)], .ret = ret};
  for (uint32_t i = 0; i < tile_rows; i++) {
    m.rows[i] = matrix_row(w->matrix, first + (i < rows ? i : rows - 1));
  }
  if (w->matrix->run_count == 1 && first + 2 * tile_rows <= w->matrix->rows) {
    m.ahead = tile_rows * w->matrix->runs[0].row_bytes;
  }
  env->kernels->matmul_q8[w->kernel](&m);
}

/*
 * Rows that must be decoded are decoded once and meet all activations. Those that lie in memory as they are go by for every few activations,
 * which then stay in the first-level cache: 16 rows are nearer than 256 activations.
 */
static void tile_f32(const matmul_env *env, uint32_t worker, const weight *w, const activation *x, const uint32_t *tokens, uint32_t count,
                     uint32_t first, uint32_t rows, float *ret) {
  enum { NEAR = 4 };
  const uint32_t tile_rows = env->kernels->tile_rows;
  float *decoded = env->workers[worker].row;
  const uint32_t most = matrix_float_row(w->matrix, first) == NULL ? count : NEAR;
  for (uint32_t at = 0; at < count; at += most) {
    const uint32_t together = count - at < most ? count - at : most;
    for (uint32_t i = 0; i < rows; i++) {
      const float *row = matrix_float_row(w->matrix, first + i);
      if (row == NULL) {
        matrix_decode_row(w->matrix, first + i, decoded);
        row = decoded;
      }
      env->kernels->dot_f32(&(dot_f32_rows){row, x->values, x->stride, tile_rows, tokens + at, ret + at * tile_rows + i, w->matrix->cols, together});
    }
  }
}

static int is_gemv(const cpu_kernels *k, const weight *w, uint32_t count) {
  return w->kernel != MATMUL_Q8_NONE && k->gemv_q8[w->kernel] != NULL && count <= GEMV_TOKENS && w->matrix->run_count == 1 &&
         gemv_q8_fits(w->matrix->cols);
}

uint32_t matmul_run_length(const cpu_kernels *k, const weight *w, uint32_t count, uint32_t tile, uint32_t most) {
  const uint32_t whole = w->matrix->rows / k->tile_rows; /* tiles without the last, shorter one */
  if (!is_gemv(k, w, count) || tile >= whole) {
    return 1;
  }
  const uint32_t limit = most < RUN_TILES ? most : RUN_TILES;
  return whole - tile < limit ? whole - tile : limit;
}

static void run_gemv(const matmul_env *env, const weight *w, const activation *x, const uint32_t *tokens, uint32_t count, uint32_t first,
                     uint32_t rows, float *ret) {
  for (uint32_t i = 0; i < count; i++) {
    env->kernels->gemv_q8[w->kernel](&(gemv_q8){matrix_row(w->matrix, first), rows, w->matrix->cols, tokens[i],
                                                &x->q8[matmul_q8_blocks(w->kernel)], ret + (size_t)i * rows});
  }
}

uint32_t matmul_tile(const matmul_env *env, uint32_t worker, const weight *w, const activation *x, const uint32_t *tokens, uint32_t count,
                     uint32_t tile, uint32_t tiles, float *ret) {
  const uint32_t tile_rows = env->kernels->tile_rows;
  const uint32_t first = tile * tile_rows;
  const uint32_t wide = tiles * tile_rows;
  const uint32_t rows = w->matrix->rows - first < wide ? w->matrix->rows - first : wide;
  if (rows == wide && is_gemv(env->kernels, w, count)) {
    run_gemv(env, w, x, tokens, count, first, rows, ret);
    return rows;
  }
  if (w->kernel != MATMUL_Q8_NONE) {
    tile_q8(env, w, x, tokens, count, first, rows, ret);
    return rows;
  }
  tile_f32(env, worker, w, x, tokens, count, first, rows, ret);
  return rows;
}

static void run_tiles(const matmul_env *env, uint32_t worker, const matmul_job *job, uint32_t tile, uint32_t tiles) {
  const uint32_t tile_rows = env->kernels->tile_rows;
  float *ret = env->workers[worker].tile[0];
  const uint32_t rows = matmul_tile(env, worker, job->w, job->x, job->tokens, job->count, tile, tiles, ret);
  for (uint32_t t = 0; t < job->count; t++) {
    matmul_put(job->y + t * job->y_stride + (size_t)tile * tile_rows, ret + (size_t)t * tiles * tile_rows, rows);
  }
}

void matmul_run(const matmul_env *env, uint32_t worker, const matmul_job *jobs, uint32_t job_count) {
  uint32_t total = 0;
  for (uint32_t j = 0; j < job_count; j++) {
    total += matmul_tiles(env->kernels, jobs[j].w);
  }
  const uint32_t grain = pool_grain(env->pool, total, 1);
  uint32_t begin = 0;
  uint32_t end = 0;
  while (pool_claim(env->pool, total, grain, &begin, &end)) {
    uint32_t job = 0;
    uint32_t before = 0; /* tiles of earlier jobs */
    uint32_t tiles = 0;
    for (uint32_t item = begin; item < end; item += tiles) {
      while (item - before >= matmul_tiles(env->kernels, jobs[job].w)) {
        before += matmul_tiles(env->kernels, jobs[job].w);
        job++;
      }
      tiles = matmul_run_length(env->kernels, jobs[job].w, jobs[job].count, item - before, end - item);
      run_tiles(env, worker, &jobs[job], item - before, tiles);
    }
  }
}
