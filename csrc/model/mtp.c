/*
 * mtp.c – what leads into the multi-token prediction layer and out of it: row t is the token at t + 1 with the model's hidden state at t,
 * and predicts the token at t + 2. Follows vLLM qwen3_5_mtp.py: embedding first, hidden state after the final norm. The layer itself is
 * an ordinary attention layer with keys and values of its own.
 */
#include <string.h>

#include "model/stages.h"

void mtp_keep_hidden(step *s, uint32_t worker) {
  const uint32_t hidden = s->desc->hidden;
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    s->env.kernels->elementwise->norm_rms(s->scratch->residual + (size_t)row * hidden, s->model->output_norm, hidden, s->desc->rms_eps,
                                          s->scratch->hidden + (size_t)row * hidden);
  }
  stage_end(s, worker, SURGE_OP_NORM);
}

static void join_row(const step *s, uint32_t row) {
  const uint32_t hidden = s->desc->hidden;
  const model_mtp *mtp = &s->model->mtp;
  const elementwise_kernels *e = s->env.kernels->elementwise;
  const activation *input = &s->scratch->predicted;
  float *values = input->values + row * input->stride;
  stage_embed(s, &mtp->embedding, row);
  e->norm_rms(s->scratch->residual + (size_t)row * hidden, mtp->embedding_norm, hidden, s->desc->rms_eps, values);
  e->norm_rms(s->batch->hidden[row], mtp->hidden_norm, hidden, s->desc->rms_eps, values + hidden);
  activation_quantise(input, s->env.kernels, row, 2 * hidden, weight_blocks(&mtp->projection));
}

void mtp_input(step *s, uint32_t worker) {
  const model_scratch *t = s->scratch;
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->row_count, 1, &row, &end)) {
    join_row(s, row);
  }
  stage_end(s, worker, SURGE_OP_EMBED);
  const matmul_job job = {&s->model->mtp.projection, &t->predicted, t->residual, s->desc->hidden, t->identity, s->batch->row_count};
  stage_matmul(s, worker, SURGE_OP_MIXER_IN, &job, 1);
}

void mtp_head(step *s, uint32_t worker) {
  const model_scratch *t = s->scratch;
  const model_mtp *mtp = &s->model->mtp;
  const uint32_t rows = s->batch->row_count;
  uint32_t row = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, rows, 1, &row, &end)) {
    stage_norm_row(s, mtp->norm, weight_blocks(&mtp->output), row, row);
    memcpy(t->hidden + (size_t)row * s->desc->hidden, t->normed.values + row * t->normed.stride, s->desc->hidden * sizeof(float));
  }
  stage_end(s, worker, SURGE_OP_NORM);
  const matmul_job job = {&mtp->output, &t->normed, t->logits, s->desc->vocab, t->identity, rows};
  stage_matmul(s, worker, SURGE_OP_HEAD, &job, 1);
}
