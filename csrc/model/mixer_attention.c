/*
 * mixer_attention.c – gated attention over paged keys and values. An item is one row and one key-value head with all query heads that
 * share it, so that a cached position is read once for all of them.
 *
 * Long sequences are cut into splits of a fixed number of pages, each with its own running maximum and sum, merged in order. With few
 * rows the splits are items of their own, so that one conversation keeps all cores busy; the bits are the same either way.
 */
#include <math.h>

#include "cpu/rope.h"
#include "model/mixer_attention.h"
#include "model/stages.h"

static uint32_t q_stride(const surge_model_desc *d) { return d->head_dim * (d->attn_gated ? 2 : 1); }

static void prepare_row(const step *s, const model_layer *layer, const model_span *span, uint32_t row) {
  const surge_model_desc *d = s->desc;
  const elementwise_kernels *e = s->env.kernels->elementwise;
  const float *table = s->scratch->rope + (size_t)row * d->rotary_dim;
  float *q = s->scratch->q + (size_t)row * d->heads * q_stride(d);
  float *k = s->scratch->k + (size_t)row * d->kv_heads * d->head_dim;
  const float *v = s->scratch->v + (size_t)row * d->kv_heads * d->head_dim;
  const uint32_t position = span->position + (row - span->row);
  const float scale = 1.0f / sqrtf((float)d->head_dim);
  for (uint32_t h = 0; h < d->heads; h++) {
    float *head = q + (size_t)h * q_stride(d);
    e->norm_rms(head, layer->q_norm, d->head_dim, d->rms_eps, head);
    rope_apply(head, table, d->rotary_dim);
    for (uint32_t i = 0; i < d->head_dim; i++) {
      head[i] *= scale;
    }
  }
  for (uint32_t h = 0; h < d->kv_heads; h++) {
    float *head = k + (size_t)h * d->head_dim;
    e->norm_rms(head, layer->k_norm, d->head_dim, d->rms_eps, head);
    rope_apply(head, table, d->rotary_dim);
    kv_store(s->kv, span->pages[position / KV_BLOCK], layer->index, h, position % KV_BLOCK, head, v + (size_t)h * d->head_dim);
  }
}

static void prepare(step *s, uint32_t worker, const model_layer *layer) {
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    prepare_row(s, layer, stage_span(s, row), row);
  }
  stage_end(s, worker, SURGE_OP_ATTENTION);
}

/* One row, one key-value head. */
typedef struct item {
  const model_span *span;
  uint32_t row, kv_head, positions, splits;
} item;

static item item_at(const step *s, uint32_t index) {
  const uint32_t row = index / s->desc->kv_heads;
  const model_span *span = stage_span(s, row);
  const uint32_t positions = span->position + (row - span->row) + 1;
  const uint32_t split = s->model->split_pages * KV_BLOCK;
  return (item){span, row, index % s->desc->kv_heads, positions, (positions + split - 1) / split};
}

static uint32_t group(const surge_model_desc *d) { return d->heads / d->kv_heads; }

/* Sums of one split into states, whose values stand in `memory` [group][head_dim]. */
static void attend_split(const step *s, const model_layer *layer, const item *it, uint32_t split, attention_state *states, float *memory) {
  const surge_model_desc *d = s->desc;
  const uint32_t heads = group(d);
  const uint32_t first_page = split * s->model->split_pages;
  for (uint32_t h = 0; h < heads; h++) {
    states[h] = (attention_state){-INFINITY, 0, memory + (size_t)h * d->head_dim};
  }
  for (size_t i = 0; i < (size_t)heads * d->head_dim; i++) {
    memory[i] = 0;
  }
  for (uint32_t page = first_page; page < first_page + s->model->split_pages && page * KV_BLOCK < it->positions; page++) {
    const uint32_t left = it->positions - page * KV_BLOCK;
    s->env.kernels->attention_block(&(attention_block){
        .k = kv_block(s->kv, it->span->pages[page], layer->index, 0, it->kv_head),
        .v = kv_block(s->kv, it->span->pages[page], layer->index, 1, it->kv_head),
        .is_f16 = s->kv->dtype == SURGE_KV_F16,
        .count = left < KV_BLOCK ? left : KV_BLOCK,
        .heads = heads,
        .head_dim = d->head_dim,
        .q = s->scratch->q + ((size_t)it->row * d->heads + (size_t)it->kv_head * heads) * q_stride(d),
        .q_stride = q_stride(d),
        .states = states,
    });
  }
}

/* Adds `from` to `to`, both relative to their own maxima. */
static void merge(const step *s, attention_state *to, const attention_state *from) {
  const elementwise_kernels *e = s->env.kernels->elementwise;
  const uint32_t n = s->desc->head_dim;
  const float maximum = fmaxf(to->maximum, from->maximum);
  const float keep = expf(to->maximum - maximum);
  const float take = expf(from->maximum - maximum);
  e->add_scaled(to->values, to->values, keep - 1.0f, n);
  e->add_scaled(to->values, from->values, take, n);
  to->sum = to->sum * keep + from->sum * take;
  to->maximum = maximum;
}

static void finish_head(const step *s, const item *it, uint32_t h, const attention_state *state) {
  const surge_model_desc *d = s->desc;
  const activation *mixed = &s->scratch->mixed;
  const uint32_t head = it->kv_head * group(d) + h;
  float *out = mixed->values + it->row * mixed->stride + (size_t)head * d->head_dim;
  for (uint32_t i = 0; i < d->head_dim; i++) {
    out[i] = state->values[i] / state->sum;
  }
  if (d->attn_gated) {
    const float *q = s->scratch->q + ((size_t)it->row * d->heads + head) * q_stride(d);
    s->env.kernels->elementwise->gate_sigmoid(out, q + d->head_dim, d->head_dim);
  }
}

/* All splits of an item by one worker. */
static void attend_whole(const step *s, const model_layer *layer, const item *it, float *memory) {
  attention_state total[ATTENTION_HEADS_MAX];
  attention_state part[ATTENTION_HEADS_MAX];
  attend_split(s, layer, it, 0, total, memory);
  for (uint32_t split = 1; split < it->splits; split++) {
    attend_split(s, layer, it, split, part, memory + (size_t)group(s->desc) * s->desc->head_dim);
    for (uint32_t h = 0; h < group(s->desc); h++) {
      merge(s, &total[h], &part[h]);
    }
  }
  for (uint32_t h = 0; h < group(s->desc); h++) {
    finish_head(s, it, h, &total[h]);
  }
}

/* A split's states in scratch.partials: per head the values, then maximum and sum. */
static float *partial_at(const step *s, uint32_t index, uint32_t split) {
  return s->scratch->partials + ((size_t)index * ATTENTION_SPLITS_MAX + split) * group(s->desc) * attention_partial_floats(s->desc);
}

static void attend_part(const step *s, const model_layer *layer, uint32_t index, uint32_t split) {
  attention_state states[ATTENTION_HEADS_MAX];
  const item it = item_at(s, index);
  const uint32_t heads = group(s->desc);
  if (split >= it.splits) {
    return;
  }
  float *memory = partial_at(s, index, split);
  attend_split(s, layer, &it, split, states, memory);
  for (uint32_t h = 0; h < heads; h++) {
    float *scalars = memory + (size_t)heads * s->desc->head_dim + (size_t)2 * h;
    scalars[0] = states[h].maximum;
    scalars[1] = states[h].sum;
  }
}

static attention_state partial_state(const step *s, uint32_t index, uint32_t split, uint32_t h) {
  float *memory = partial_at(s, index, split);
  const float *scalars = memory + (size_t)group(s->desc) * s->desc->head_dim + (size_t)2 * h;
  return (attention_state){scalars[0], scalars[1], memory + (size_t)h * s->desc->head_dim};
}

static void merge_parts(const step *s, uint32_t index, uint32_t h) {
  const item it = item_at(s, index);
  attention_state total = partial_state(s, index, 0, h);
  for (uint32_t split = 1; split < it.splits; split++) {
    const attention_state part = partial_state(s, index, split, h);
    merge(s, &total, &part);
  }
  finish_head(s, &it, h, &total);
}

static void attend_in_parts(step *s, uint32_t worker, const model_layer *layer, uint32_t items, uint32_t splits) {
  uint32_t at = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, items * splits, 1, &at, &end)) {
    attend_part(s, layer, at / splits, at % splits);
  }
  stage_end(s, worker, SURGE_OP_ATTENTION);
  while (pool_claim(s->env.pool, items * group(s->desc), 1, &at, &end)) {
    merge_parts(s, at / group(s->desc), at % group(s->desc));
  }
}

static void attend(step *s, uint32_t worker, const model_layer *layer) {
  const uint32_t items = s->batch->row_count * s->desc->kv_heads;
  uint32_t splits = 0;
  uint64_t positions = 0;
  for (uint32_t row = 0; row < s->batch->row_count; row++) {
    const item it = item_at(s, row * s->desc->kv_heads);
    positions += it.positions;
    splits = it.splits > splits ? it.splits : splits;
  }
  if (splits > 1 && s->batch->row_count <= ATTENTION_SPLIT_ROWS) {
    attend_in_parts(s, worker, layer, items, splits);
  } else {
    uint32_t at = 0;
    uint32_t end = 0;
    while (pool_claim(s->env.pool, items, 1, &at, &end)) {
      const item it = item_at(s, at);
      attend_whole(s, layer, &it, s->env.workers[worker].row);
    }
  }
  stage_book(s, worker, SURGE_OP_ATTENTION, positions * (s->kv->layer_bytes / KV_BLOCK),
             2 * positions * s->desc->heads * s->desc->head_dim);
  stage_end(s, worker, SURGE_OP_ATTENTION);
}

void mixer_attention(step *s, uint32_t worker, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  const matmul_job inputs[] = {
      {&layer->q, &t->normed, t->q, (size_t)d->heads * q_stride(d), t->identity, rows},
      {&layer->k, &t->normed, t->k, (size_t)d->kv_heads * d->head_dim, t->identity, rows},
      {&layer->v, &t->normed, t->v, (size_t)d->kv_heads * d->head_dim, t->identity, rows},
  };
  stage_matmul(s, worker, SURGE_OP_MIXER_IN, inputs, 3);
  prepare(s, worker, layer);
  attend(s, worker, layer);
}
