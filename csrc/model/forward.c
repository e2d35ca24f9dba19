/*
 * forward.c – the forward pass: embedding, layers (mixer, then mixture of experts), head. Follows transformers
 * modeling_qwen3_5_moe.py and modeling_qwen3_moe.py; the mixers are in mixer_*.c, the experts in moe.c.
 */
#include <string.h>
#include <time.h>

#include "cpu/rope.h"
#include "model/stages.h"

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void stage_end(step *s, uint32_t worker, surge_op op) {
  pool_sync(s->env.pool);
  if (worker == 0) {
    const uint64_t now = now_ns();
    s->counters->ns[op] += now - s->since;
    s->since = now;
  }
}

void stage_book(step *s, uint32_t worker, surge_op op, uint64_t bytes, uint64_t macs) {
  if (worker == 0) {
    s->counters->bytes[op] += bytes;
    s->counters->macs[op] += macs;
  }
}

void stage_matmul(step *s, uint32_t worker, surge_op op, const matmul_job *jobs, uint32_t job_count) {
  matmul_run(&s->env, worker, jobs, job_count);
  for (uint32_t j = 0; j < job_count; j++) {
    const matrix *m = jobs[j].w->matrix;
    stage_book(s, worker, op, weight_bytes(jobs[j].w), (uint64_t)m->rows * m->cols * jobs[j].count);
  }
  stage_end(s, worker, op);
}

const model_span *stage_span(const step *s, uint32_t row) {
  const model_span *span = s->batch->spans;
  while (row >= span->row + span->count) {
    span++;
  }
  return span;
}

float *stage_state(const step *s, const model_span *span, const model_layer *layer) {
  return span->states + layer->index * (s->model->conv_floats + s->model->recurrent_floats);
}

static void norm_row(const step *s, const float *weights, uint32_t blocks, uint32_t from, uint32_t to) {
  const uint32_t hidden = s->desc->hidden;
  const activation *a = &s->scratch->normed;
  s->env.kernels->elementwise->norm_rms(s->scratch->residual + (size_t)from * hidden, weights, hidden, s->desc->rms_eps,
                                        a->values + (size_t)to * a->stride);
  activation_quantise(a, s->env.kernels, to, hidden, blocks);
}

void stage_norm(step *s, uint32_t worker, const float *weights, uint32_t blocks) {
  uint32_t begin = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &begin, &end)) {
    norm_row(s, weights, blocks, begin, begin);
  }
  stage_end(s, worker, SURGE_OP_NORM);
}

static void embed(step *s, uint32_t worker) {
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    matrix_decode_row(s->model->embedding.matrix, s->batch->rows[row].token, s->scratch->residual + (size_t)row * s->desc->hidden);
    rope_table(s->scratch->frequencies, s->desc->rotary_dim, s->batch->rows[row].position, s->desc->rope_attn_factor,
               s->scratch->rope + (size_t)row * s->desc->rotary_dim);
  }
  stage_end(s, worker, SURGE_OP_EMBED);
}

static void add_projected(step *s, uint32_t worker) {
  const uint32_t hidden = s->desc->hidden;
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    s->env.kernels->elementwise->add_scaled(s->scratch->residual + (size_t)row * hidden, s->scratch->projected + (size_t)row * hidden, 1.0f,
                                            hidden);
  }
  stage_end(s, worker, SURGE_OP_NORM);
}

static void quantise_mixed(step *s, uint32_t worker, const model_layer *layer, surge_op op) {
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    activation_quantise(&s->scratch->mixed, s->env.kernels, row, layer->out.matrix->cols, layer->out_blocks);
  }
  stage_end(s, worker, op);
}

static void mix(step *s, uint32_t worker, const model_layer *layer) {
  const model_scratch *t = s->scratch;
  const int attends = layer->kind == SURGE_LAYER_ATTENTION;
  stage_norm(s, worker, layer->attn_norm, layer->in_blocks);
  if (attends) {
    mixer_attention(s, worker, layer);
  } else {
    mixer_gdn(s, worker, layer);
  }
  quantise_mixed(s, worker, layer, attends ? SURGE_OP_ATTENTION : SURGE_OP_GDN);
  const matmul_job output = {&layer->out, &t->mixed, t->projected, s->desc->hidden, t->identity, s->batch->row_count};
  stage_matmul(s, worker, SURGE_OP_MIXER_OUT, &output, 1);
  add_projected(s, worker);
}

/* Norms of the rows that want logits, moved together, then the head. */
static void head(step *s, uint32_t worker) {
  const model_scratch *t = s->scratch;
  uint32_t wanted = 0;
  for (uint32_t row = 0; row < s->batch->row_count; row++) {
    if (s->batch->rows[row].flags & SURGE_ROW_LOGITS) {
      if (worker == 0) {
        norm_row(s, s->model->output_norm, weight_blocks(&s->model->output), row, wanted);
      }
      wanted++;
    }
  }
  stage_end(s, worker, SURGE_OP_NORM);
  const matmul_job job = {&s->model->output, &t->normed, t->logits, s->desc->vocab, t->identity, wanted};
  stage_matmul(s, worker, SURGE_OP_HEAD, &job, wanted > 0);
}

typedef struct stage_task {
  step step;
  uint32_t stage;
} stage_task;

static void run_stage(void *context, uint32_t worker, uint32_t workers) {
  stage_task *task = context;
  step *s = &task->step;
  (void)workers;
  if (task->stage == 0) {
    embed(s, worker);
  } else if (task->stage > 2 * s->desc->layers) {
    head(s, worker);
  } else {
    const model_layer *layer = &s->model->layers[(task->stage - 1) / 2];
    if (task->stage % 2 == 1) {
      mix(s, worker, layer);
    } else {
      stage_norm(s, worker, layer->ffn_norm, layer->up_blocks);
      moe_forward(s, worker, layer);
    }
  }
}

uint32_t model_stages(const model *m) { return 2 * m->desc.layers + 2; }

void model_forward(model *m, pool *p, kv_pool *kv, const model_batch *batch, uint32_t stage, surge_counters *counters) {
  stage_task task = {
      .step = {.model = m, .desc = &m->desc, .scratch = &m->scratch, .kv = kv, .batch = batch, .counters = counters, .since = now_ns(),
               .env = {.pool = p, .kernels = m->kernels, .workers = m->scratch.workers}},
      .stage = stage,
  };
  pool_run(p, run_stage, &task);
}
