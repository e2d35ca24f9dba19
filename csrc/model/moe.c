/*
 * moe.c – the mixture of experts of one layer: route, group the step's tokens by expert, gate/up + SwiGLU, down, weighted sum in the
 * order of the choice, plus the shared expert. An expert's rows are decoded once for all tokens that chose it.
 */
#include "cpu/kernels/dot_f32/dot_f32.h"
#include "cpu/norm.h"
#include "cpu/router.h"
#include "model/stages.h"

typedef struct moe_task {
  const step *step;
  const model_layer *layer;
  uint32_t active_count; /* experts with at least one token: scratch.active */
} moe_task;

static void choose_share(void *context, uint32_t worker, uint32_t workers) {
  const step *s = ((const moe_task *)context)->step;
  const surge_model_desc *d = s->desc;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(s->batch->row_count, worker, workers, 1, &begin, &end);
  for (uint32_t row = begin; row < end; row++) {
    const size_t at = (size_t)row * d->experts_used;
    router_choose(s->scratch->router + (size_t)row * d->experts, d->experts, d->experts_used, d->norm_topk, s->scratch->chosen + at,
                  s->scratch->weights + at);
  }
}

/* Row `o` of the gate and up matrices of one expert, for every token of its group. */
static void gate_up_row(const step *s, const model_layer *layer, uint32_t expert, uint32_t o, float *decoded) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  float *up_row = decoded + s->scratch->workers.stride / 2;
  matrix_decode_row(layer->experts[expert].gate, o, decoded);
  matrix_decode_row(layer->experts[expert].up, o, up_row);
  for (uint32_t i = t->starts[expert]; i < t->starts[expert + 1]; i++) {
    const uint32_t pair = t->order[i];
    const float *x = t->normed + (size_t)(pair / d->experts_used) * d->hidden;
    t->gate[(size_t)pair * d->expert_ff + o] = silu(dot_f32(decoded, x, d->hidden)) * dot_f32(up_row, x, d->hidden);
  }
}

static void down_row(const step *s, const model_layer *layer, uint32_t expert, uint32_t o, float *decoded) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  matrix_decode_row(layer->experts[expert].down, o, decoded);
  for (uint32_t i = t->starts[expert]; i < t->starts[expert + 1]; i++) {
    const uint32_t pair = t->order[i];
    t->expert_out[(size_t)pair * d->hidden + o] = dot_f32(decoded, t->gate + (size_t)pair * d->expert_ff, d->expert_ff);
  }
}

static void gate_up_share(void *context, uint32_t worker, uint32_t workers) {
  const moe_task *task = context;
  const uint32_t rows = task->step->desc->expert_ff;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(task->active_count * rows, worker, workers, 1, &begin, &end);
  for (uint32_t item = begin; item < end; item++) {
    gate_up_row(task->step, task->layer, task->step->scratch->active[item / rows], item % rows,
                worker_buffer(&task->step->scratch->workers, worker));
  }
}

static void down_share(void *context, uint32_t worker, uint32_t workers) {
  const moe_task *task = context;
  const uint32_t rows = task->step->desc->hidden;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(task->active_count * rows, worker, workers, 1, &begin, &end);
  for (uint32_t item = begin; item < end; item++) {
    down_row(task->step, task->layer, task->step->scratch->active[item / rows], item % rows,
             worker_buffer(&task->step->scratch->workers, worker));
  }
}

static void combine_row(const step *s, uint32_t row) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  float *out = t->mixed + (size_t)row * d->hidden;
  const float shared = d->shared_ff > 0 ? sigmoid(t->shared_weight[row]) : 0.0f;
  for (uint32_t i = 0; i < d->hidden; i++) {
    float sum = 0;
    for (uint32_t k = 0; k < d->experts_used; k++) {
      const size_t pair = (size_t)row * d->experts_used + k;
      sum += t->weights[pair] * t->expert_out[pair * d->hidden + i];
    }
    out[i] = d->shared_ff > 0 ? sum + shared * t->shared_out[(size_t)row * d->hidden + i] : sum;
  }
}

static void combine_share(void *context, uint32_t worker, uint32_t workers) {
  const step *s = ((const moe_task *)context)->step;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(s->batch->row_count, worker, workers, 1, &begin, &end);
  for (uint32_t row = begin; row < end; row++) {
    combine_row(s, row);
  }
}

static uint32_t list_active(const model_scratch *t, uint32_t experts) {
  uint32_t count = 0;
  for (uint32_t e = 0; e < experts; e++) {
    if (t->starts[e + 1] > t->starts[e]) {
      t->active[count++] = e;
    }
  }
  return count;
}

static void shared_expert(const step *s, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  const matmul_job inputs[] = {
      {layer->shared_gate, t->normed, t->shared_gate, d->hidden, d->shared_ff, rows},
      {layer->shared_up, t->normed, t->shared_up, d->hidden, d->shared_ff, rows},
      {layer->shared_router, t->normed, t->shared_weight, d->hidden, 1, rows},
  };
  matmul_run(s->pool, &t->workers, inputs, 3);
  for (size_t i = 0; i < (size_t)rows * d->shared_ff; i++) {
    t->shared_gate[i] = silu(t->shared_gate[i]) * t->shared_up[i];
  }
  const matmul_job down = {layer->shared_down, t->shared_gate, t->shared_out, d->shared_ff, d->hidden, rows};
  matmul_run(s->pool, &t->workers, &down, 1);
}

void moe_forward(const step *s, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  moe_task task = {.step = s, .layer = layer};
  const matmul_job router = {layer->router, t->normed, t->router, d->hidden, d->experts, rows};
  matmul_run(s->pool, &t->workers, &router, 1);
  pool_run(s->pool, choose_share, &task);
  router_group(t->chosen, rows * d->experts_used, d->experts, t->starts, t->order);
  task.active_count = list_active(t, d->experts);
  pool_run(s->pool, gate_up_share, &task);
  pool_run(s->pool, down_share, &task);
  if (d->shared_ff > 0) {
    shared_expert(s, layer);
  }
  pool_run(s->pool, combine_share, &task);
}
