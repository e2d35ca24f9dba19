/*
 * forward.c – the forward pass: embedding, layers (mixer, then mixture of experts), head. Follows transformers
 * modeling_qwen3_5_moe.py and modeling_qwen3_moe.py; the mixers are in mixer.c, the experts in moe.c.
 */
#include <string.h>

#include "cpu/norm.h"
#include "cpu/rope.h"
#include "model/stages.h"

typedef struct rows_task {
  const step *step;
  const float *from;
  const float *weight;
  float *to;
} rows_task;

static void embed_share(void *context, uint32_t worker, uint32_t workers) {
  const step *s = context;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(s->batch->row_count, worker, workers, 1, &begin, &end);
  for (uint32_t r = begin; r < end; r++) {
    matrix_decode_row(s->model->embedding, s->batch->rows[r].token, s->scratch->residual + (size_t)r * s->desc->hidden);
    rope_table(s->scratch->frequencies, s->desc->rotary_dim, s->batch->rows[r].position, s->desc->rope_attn_factor,
               s->scratch->rope + (size_t)r * s->desc->rotary_dim);
  }
}

static void norm_share(void *context, uint32_t worker, uint32_t workers) {
  const rows_task *task = context;
  const uint32_t hidden = task->step->desc->hidden;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(task->step->batch->row_count, worker, workers, 1, &begin, &end);
  for (uint32_t r = begin; r < end; r++) {
    norm_rms(task->from + (size_t)r * hidden, task->weight, hidden, task->step->desc->rms_eps, task->to + (size_t)r * hidden);
  }
}

static void norm_rows(const step *s, const float *from, const float *weight, float *to) {
  rows_task task = {s, from, weight, to};
  pool_run(s->pool, norm_share, &task);
}

static void add_rows(const step *s, const float *from) {
  const size_t count = (size_t)s->batch->row_count * s->desc->hidden;
  for (size_t i = 0; i < count; i++) {
    s->scratch->residual[i] += from[i];
  }
}

/* Moves the rows that want logits together, then multiplies them by the head. */
static void compute_logits(const step *s) {
  const uint32_t hidden = s->desc->hidden;
  uint32_t wanted = 0;
  for (uint32_t r = 0; r < s->batch->row_count; r++) {
    if (s->batch->rows[r].flags & SURGE_ROW_LOGITS) {
      memmove(s->scratch->normed + (size_t)wanted * hidden, s->scratch->normed + (size_t)r * hidden, hidden * sizeof(float));
      wanted++;
    }
  }
  if (wanted > 0) {
    const matmul_job job = {s->model->output, s->scratch->normed, s->scratch->logits, hidden, s->desc->vocab, wanted};
    matmul_run(s->pool, &s->scratch->workers, &job, 1);
  }
}

void model_forward(model *m, pool *p, kv_pool *kv, const model_batch *batch) {
  step s = {.model = m, .desc = &m->desc, .scratch = &m->scratch, .pool = p, .kv = kv, .batch = batch};
  pool_run(p, embed_share, &s);
  for (uint32_t i = 0; i < m->desc.layers; i++) {
    const model_layer *layer = &m->layers[i];
    norm_rows(&s, s.scratch->residual, layer->attn_norm, s.scratch->normed);
    if (layer->kind == SURGE_LAYER_ATTENTION) {
      mixer_attention(&s, layer);
    } else {
      mixer_gdn(&s, layer);
    }
    add_rows(&s, s.scratch->mixed);
    norm_rows(&s, s.scratch->residual, layer->ffn_norm, s.scratch->normed);
    moe_forward(&s, layer);
    add_rows(&s, s.scratch->mixed);
  }
  norm_rows(&s, s.scratch->residual, m->output_norm, s.scratch->normed);
  compute_logits(&s);
}
