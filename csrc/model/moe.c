/*
 * moe.c – the mixture of experts of one layer: route, group the step's rows by expert, gate/up with SwiGLU, down, weighted sum in the
 * order of the choice. The shared expert is one more expert that every row goes to. An expert's rows are read once for all that chose it.
 */
#include <string.h>

#include "cpu/router.h"
#include "model/stages.h"

static uint32_t pairs(const step *s) { return s->batch->row_count * s->desc->experts_used; }

static void choose(step *s, uint32_t worker) {
  const surge_model_desc *d = s->desc;
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    const size_t at = (size_t)row * d->experts_used;
    router_choose(s->scratch->router + (size_t)row * d->experts, d->experts, d->experts_used, d->norm_topk, s->scratch->chosen + at,
                  s->scratch->weights + at);
  }
  stage_end(s, worker, SURGE_OP_ROUTER);
}

/* Experts with at least one row, the shared one last; returns how many. */
static uint32_t list_tasks(const step *s, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  uint32_t count = 0;
  router_group(t->chosen, pairs(s), d->experts, t->starts, t->order);
  for (uint32_t i = 0; i < pairs(s); i++) {
    t->tokens[i] = t->order[i] / d->experts_used;
  }
  for (uint32_t e = 0; e < d->experts; e++) {
    const uint32_t first = t->starts[e];
    if (t->starts[e + 1] > first) {
      t->tasks[count++] = (expert_task){&layer->experts[e], t->tokens + first, t->order + first, t->starts[e + 1] - first};
    }
  }
  if (d->shared_ff > 0) {
    t->tasks[count++] = (expert_task){&layer->experts[d->experts], t->identity, t->identity + pairs(s), s->batch->row_count};
  }
  return count;
}

/* Both functions below: tiles [tile, tile + tiles) of a task. */
static void up_tiles(const step *s, uint32_t worker, const expert_task *task, uint32_t tile, uint32_t tiles) {
  const worker_scratch *own = &s->env.workers[worker];
  const uint32_t tile_rows = s->env.kernels->tile_rows;
  const size_t wide = (size_t)tiles * tile_rows;
  const activation *hidden = &s->scratch->expert_hidden;
  const activation *x = &s->scratch->normed;
  const uint32_t rows = matmul_tile(&s->env, worker, &task->expert->gate, x, task->tokens, task->count, tile, tiles, own->tile[0]);
  matmul_tile(&s->env, worker, &task->expert->up, x, task->tokens, task->count, tile, tiles, own->tile[1]);
  s->env.kernels->elementwise->swiglu(own->tile[0], own->tile[1], (uint32_t)(task->count * wide));
  for (uint32_t i = 0; i < task->count; i++) {
    matmul_put(hidden->values + task->slots[i] * hidden->stride + (size_t)tile * tile_rows, own->tile[0] + i * wide, rows);
  }
}

static void down_tiles(const step *s, uint32_t worker, const expert_task *task, uint32_t tile, uint32_t tiles) {
  const uint32_t tile_rows = s->env.kernels->tile_rows;
  float *ret = s->env.workers[worker].tile[0];
  const uint32_t rows = matmul_tile(&s->env, worker, &task->expert->down, &s->scratch->expert_hidden, task->slots, task->count, tile, tiles, ret);
  for (uint32_t i = 0; i < task->count; i++) {
    matmul_put(s->scratch->expert_out + (size_t)task->slots[i] * s->desc->hidden + (size_t)tile * tile_rows, ret + (size_t)i * tiles * tile_rows,
               rows);
  }
}

/* Gate and up are computed together, so a run must suit both. */
static uint32_t run_length(const step *s, const expert_task *task, int is_up, uint32_t tile, uint32_t most) {
  const model_expert *e = task->expert;
  if (!is_up) {
    return matmul_run_length(s->env.kernels, &e->down, task->count, tile, most);
  }
  const uint32_t gate = matmul_run_length(s->env.kernels, &e->gate, task->count, tile, most);
  return matmul_run_length(s->env.kernels, &e->up, task->count, tile, gate);
}

/* One phase over all tiles of all tasks: gate and up together, or down. */
static void run_tasks(step *s, uint32_t worker, uint32_t count, surge_op op) {
  const expert_task *tasks = s->scratch->tasks;
  const int is_up = op == SURGE_OP_EXPERT_UP;
  uint32_t total = 0;
  for (uint32_t i = 0; i < count; i++) {
    const weight *w = is_up ? &tasks[i].expert->gate : &tasks[i].expert->down;
    total += matmul_tiles(s->env.kernels, w);
    stage_book(s, worker, op, weight_bytes(w) * (is_up ? 2 : 1), (uint64_t)w->matrix->rows * w->matrix->cols * tasks[i].count * (is_up ? 2 : 1));
  }
  const uint32_t grain = pool_grain(s->env.pool, total, 4);
  uint32_t begin = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, total, grain, &begin, &end)) {
    uint32_t task = 0;
    uint32_t before = 0; /* tiles of earlier tasks */
    uint32_t tiles = 0;
    for (uint32_t item = begin; item < end; item += tiles) {
      for (;;) {
        const uint32_t own = matmul_tiles(s->env.kernels, is_up ? &tasks[task].expert->gate : &tasks[task].expert->down);
        if (item - before < own) {
          break;
        }
        before += own;
        task++;
      }
      tiles = run_length(s, &tasks[task], is_up, item - before, end - item);
      if (is_up) {
        up_tiles(s, worker, &tasks[task], item - before, tiles);
      } else {
        down_tiles(s, worker, &tasks[task], item - before, tiles);
      }
    }
  }
  stage_end(s, worker, op);
}

static void quantise_hidden(step *s, uint32_t worker, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const uint32_t slots = pairs(s) + (d->shared_ff > 0 ? s->batch->row_count : 0);
  uint32_t begin = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, slots, d->experts_used, &begin, &end)) {
    for (uint32_t slot = begin; slot < end; slot++) {
      activation_quantise(&s->scratch->expert_hidden, s->env.kernels, slot, slot < pairs(s) ? d->expert_ff : d->shared_ff, layer->down_blocks);
    }
  }
  stage_end(s, worker, SURGE_OP_EXPERT_UP);
}

static void combine(step *s, uint32_t worker) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const elementwise_kernels *e = s->env.kernels->elementwise;
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    float *residual = t->residual + (size_t)row * d->hidden;
    for (uint32_t k = 0; k < d->experts_used; k++) {
      const size_t slot = (size_t)row * d->experts_used + k;
      e->add_scaled(residual, t->expert_out + slot * d->hidden, t->weights[slot], d->hidden);
    }
    if (d->shared_ff > 0) {
      float gate = 1.0f;
      e->gate_sigmoid(&gate, &t->shared_weight[row], 1);
      e->add_scaled(residual, t->expert_out + ((size_t)pairs(s) + row) * d->hidden, gate, d->hidden);
    }
  }
  stage_end(s, worker, SURGE_OP_EXPERT_DOWN);
}

void moe_forward(step *s, uint32_t worker, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  const matmul_job routers[] = {
      {&layer->router, &t->normed, t->router, d->experts, t->identity, rows},
      {&layer->shared_router, &t->normed, t->shared_weight, 1, t->identity, rows},
  };
  stage_matmul(s, worker, SURGE_OP_ROUTER, routers, d->shared_ff > 0 ? 2 : 1);
  choose(s, worker);
  if (worker == 0) {
    t->starts[d->experts + 1] = list_tasks(s, layer);
  }
  stage_end(s, worker, SURGE_OP_ROUTER);
  const uint32_t count = t->starts[d->experts + 1];
  run_tasks(s, worker, count, SURGE_OP_EXPERT_UP);
  quantise_hidden(s, worker, layer);
  run_tasks(s, worker, count, SURGE_OP_EXPERT_DOWN);
  combine(s, worker);
}
