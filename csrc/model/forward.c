/*
 * forward.c – the forward pass: embedding, layers (mixer, then mixture of experts), head. Follows transformers
 * modeling_qwen3_5_moe.py and modeling_qwen3_moe.py; the mixers are in mixer_*.c, the experts in moe.c, the ends of the MTP layer in mtp.c.
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

float *stage_state(const step *s, float *states, const model_layer *layer) {
  return states + layer->index * (s->model->conv_floats + s->model->recurrent_floats);
}

void stage_norm_row(const step *s, const float *weights, uint32_t blocks, uint32_t from, uint32_t to) {
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
    stage_norm_row(s, weights, blocks, begin, begin);
  }
  stage_end(s, worker, SURGE_OP_NORM);
}

void stage_embed(const step *s, const weight *embedding, uint32_t row) {
  const surge_row *r = &s->batch->rows[row];
  matrix_decode_row(embedding->matrix, r->token, s->scratch->residual + (size_t)row * s->desc->hidden);
  rope_table(s->scratch->frequencies, s->desc->rotary_dim, r->position, s->desc->rope_attn_factor,
             s->scratch->rope + (size_t)row * s->desc->rotary_dim);
}

static void embed(step *s, uint32_t worker) {
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    stage_embed(s, &s->model->embedding, row);
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
        stage_norm_row(s, s->model->output_norm, weight_blocks(&s->model->output), row, wanted);
      }
      wanted++;
    }
  }
  stage_end(s, worker, SURGE_OP_NORM);
  const matmul_job job = {&s->model->output, &t->normed, t->logits, s->desc->vocab, t->identity, wanted};
  stage_matmul(s, worker, SURGE_OP_HEAD, &job, wanted > 0);
  if (s->desc->mtp_layers > 0) {
    mtp_keep_hidden(s, worker);
  }
}

/* One half of a layer: its mixer, or its experts. */
static void run_half(step *s, uint32_t worker, const model_layer *layer, int mixes) {
  if (mixes) {
    mix(s, worker, layer);
  } else {
    stage_norm(s, worker, layer->ffn_norm, layer->up_blocks);
    moe_forward(s, worker, layer);
  }
}

typedef struct stage_task {
  step step;
  uint32_t stage;
} stage_task;

static void run_stage(void *context, uint32_t worker, uint32_t workers) {
  stage_task *task = context;
  step *s = &task->step;
  const uint32_t mtp = model_mtp_first_stage(s->model);
  (void)workers;
  if (task->stage == 0) {
    embed(s, worker);
  } else if (task->stage + 1 < mtp) {
    run_half(s, worker, &s->model->layers[(task->stage - 1) / 2], task->stage % 2 == 1);
  } else if (task->stage + 1 == mtp) {
    head(s, worker);
  } else if (task->stage == mtp) {
    mtp_input(s, worker);
  } else if (task->stage < model_mtp_head_stage(s->model)) {
    run_half(s, worker, &s->model->mtp.layer, task->stage == mtp + 1);
  } else {
    mtp_head(s, worker);
  }
}

uint32_t model_mtp_first_stage(const model *m) { return 2 * m->desc.layers + 2; }

uint32_t model_mtp_head_stage(const model *m) { return model_mtp_first_stage(m) + 3; }

uint32_t model_stages(const model *m) { return m->desc.mtp_layers > 0 ? model_mtp_head_stage(m) : model_mtp_first_stage(m); }

static step step_make(model *m, pool *p, kv_pool *kv, const model_batch *batch, surge_counters *counters) {
  return (step){.model = m, .desc = &m->desc, .scratch = &m->scratch, .kv = kv, .batch = batch, .counters = counters, .since = now_ns(),
                .env = {.pool = p, .kernels = m->kernels, .workers = m->scratch.workers}};
}

void model_forward(model *m, pool *p, kv_pool *kv, const model_batch *batch, uint32_t stage, surge_counters *counters) {
  stage_task task = {.step = step_make(m, p, kv, batch, counters), .stage = stage};
  if (batch->row_count > 0) { /* the MTP layer's batch is empty where a sequence begins with one row */
    pool_run(p, run_stage, &task);
  }
}

static void run_replay(void *context, uint32_t worker, uint32_t workers) {
  step *s = context;
  (void)workers;
  for (uint32_t i = 0; i < s->desc->layers; i++) {
    if (s->model->layers[i].kind == SURGE_LAYER_GDN) {
      mixer_gdn_recur(s, worker, &s->model->layers[i]);
    }
  }
}

void model_replay(model *m, pool *p, const model_span *span, surge_counters *counters) {
  const model_batch batch = {.row_count = span->count, .spans = span, .span_count = 1};
  step s = step_make(m, p, NULL, &batch, counters);
  if (m->gdn_layers > 0) {
    pool_run(p, run_replay, &s);
  }
}
