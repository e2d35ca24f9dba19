/*
 * mixer.c – the two token mixers of the family over a batch of spans: gated attention and Gated DeltaNet.
 * Work is split by (row, head) or (span, head); a head's sums never cross workers.
 */
#include "cpu/attention.h"
#include "cpu/gdn.h"
#include "cpu/norm.h"
#include "cpu/rope.h"
#include "model/stages.h"

typedef struct mixer_task {
  const step *step;
  const model_layer *layer;
} mixer_task;

static const float L2_EPS = 1e-6f; /* fixed in the reference, independent of rms_norm_eps */

/* ---- attention ---- */

static uint32_t q_stride(const surge_model_desc *d) { return d->head_dim * (d->attn_gated ? 2 : 1); }

static void prepare_row(const step *s, const model_layer *layer, const model_span *span, uint32_t row) {
  const surge_model_desc *d = s->desc;
  const float *table = s->scratch->rope + (size_t)row * d->rotary_dim;
  float *q = s->scratch->q + (size_t)row * d->heads * q_stride(d);
  float *k = s->scratch->k + (size_t)row * d->kv_heads * d->head_dim;
  const float *v = s->scratch->v + (size_t)row * d->kv_heads * d->head_dim;
  const uint32_t position = span->position + (row - span->row);
  for (uint32_t h = 0; h < d->heads; h++) {
    float *head = q + (size_t)h * q_stride(d);
    norm_rms(head, layer->q_norm, d->head_dim, d->rms_eps, head);
    rope_apply(head, table, d->rotary_dim);
  }
  for (uint32_t h = 0; h < d->kv_heads; h++) {
    float *head = k + (size_t)h * d->head_dim;
    norm_rms(head, layer->k_norm, d->head_dim, d->rms_eps, head);
    rope_apply(head, table, d->rotary_dim);
    kv_store(s->kv, span->pages[position / KV_BLOCK], layer->index, h, position % KV_BLOCK, head, v + (size_t)h * d->head_dim);
  }
}

static const model_span *span_of(const step *s, uint32_t row) {
  const model_span *span = s->batch->spans;
  while (row >= span->row + span->count) {
    span++;
  }
  return span;
}

static void prepare_share(void *context, uint32_t worker, uint32_t workers) {
  const mixer_task *task = context;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(task->step->batch->row_count, worker, workers, 1, &begin, &end);
  for (uint32_t row = begin; row < end; row++) {
    prepare_row(task->step, task->layer, span_of(task->step, row), row);
  }
}

static void attend_head(const step *s, const model_layer *layer, uint32_t row, uint32_t h, float *buffer) {
  const surge_model_desc *d = s->desc;
  const model_span *span = span_of(s, row);
  const float *q = s->scratch->q + ((size_t)row * d->heads + h) * q_stride(d);
  float *out = s->scratch->attended + ((size_t)row * d->heads + h) * d->head_dim;
  const uint32_t kv_head = h / (d->heads / d->kv_heads);
  attention_head(s->kv, span->pages, layer->index, kv_head, span->position + (row - span->row), q, buffer, out);
  for (uint32_t i = 0; i < d->head_dim && d->attn_gated; i++) {
    out[i] *= sigmoid(q[d->head_dim + i]);
  }
}

static void attend_share(void *context, uint32_t worker, uint32_t workers) {
  const mixer_task *task = context;
  const uint32_t heads = task->step->desc->heads;
  float *buffer = worker_buffer(&task->step->scratch->workers, worker);
  /* Interleaved, not in blocks: late rows of a prefill attend to more. */
  for (uint32_t item = worker; item < task->step->batch->row_count * heads; item += workers) {
    attend_head(task->step, task->layer, item / heads, item % heads, buffer);
  }
}

void mixer_attention(const step *s, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  const matmul_job inputs[] = {
      {layer->q, t->normed, t->q, d->hidden, (size_t)d->heads * q_stride(d), rows},
      {layer->k, t->normed, t->k, d->hidden, (size_t)d->kv_heads * d->head_dim, rows},
      {layer->v, t->normed, t->v, d->hidden, (size_t)d->kv_heads * d->head_dim, rows},
  };
  mixer_task task = {s, layer};
  matmul_run(s->pool, &t->workers, inputs, 3);
  pool_run(s->pool, prepare_share, &task);
  pool_run(s->pool, attend_share, &task);
  const matmul_job output = {layer->out, t->attended, t->mixed, (size_t)d->heads * d->head_dim, d->hidden, rows};
  matmul_run(s->pool, &t->workers, &output, 1);
}

/* ---- delta net ---- */

static float *conv_state(const step *s, const model_span *span, const model_layer *layer) {
  return span->states + layer->index * (s->model->conv_floats + s->model->recurrent_floats);
}

static void convolve_share(void *context, uint32_t worker, uint32_t workers) {
  const mixer_task *task = context;
  const step *s = task->step;
  const uint32_t channels = s->model->gdn_channels;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(channels, worker, workers, 16, &begin, &end);
  for (uint32_t i = 0; i < s->batch->span_count; i++) {
    const model_span *span = &s->batch->spans[i];
    const size_t at = (size_t)span->row * channels;
    gdn_convolve(s->scratch->qkv + at, task->layer->conv, s->desc->gdn_conv, channels, begin, end, span->count,
                 conv_state(s, span, task->layer), s->scratch->convolved + at);
  }
}

static void normalise_share(void *context, uint32_t worker, uint32_t workers) {
  const step *s = ((const mixer_task *)context)->step;
  const surge_model_desc *d = s->desc;
  const float q_factor = 1.0f / __builtin_sqrtf((float)d->gdn_key_dim);
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(s->batch->row_count, worker, workers, 1, &begin, &end);
  for (uint32_t row = begin; row < end; row++) {
    float *heads = s->scratch->convolved + (size_t)row * s->model->gdn_channels;
    for (uint32_t h = 0; h < 2 * d->gdn_key_heads; h++) {
      norm_l2(heads + (size_t)h * d->gdn_key_dim, d->gdn_key_dim, L2_EPS, h < d->gdn_key_heads ? q_factor : 1.0f);
    }
  }
}

static void recur_head(const step *s, const model_layer *layer, const model_span *span, uint32_t h, float *buffer) {
  const surge_model_desc *d = s->desc;
  const uint32_t repeat = d->gdn_value_heads / d->gdn_key_heads;
  const uint32_t key_head = d->gdn_head_order == SURGE_HEADS_GROUPED ? h / repeat : h % d->gdn_key_heads;
  const uint32_t key_width = d->gdn_key_heads * d->gdn_key_dim;
  float *state = conv_state(s, span, layer) + s->model->conv_floats + (size_t)h * d->gdn_key_dim * d->gdn_value_dim;
  for (uint32_t row = span->row; row < span->row + span->count; row++) {
    const float *q = s->scratch->convolved + (size_t)row * s->model->gdn_channels + (size_t)key_head * d->gdn_key_dim;
    const float *v = s->scratch->convolved + (size_t)row * s->model->gdn_channels + 2 * key_width + (size_t)h * d->gdn_value_dim;
    const size_t gate = (size_t)row * d->gdn_value_heads + h;
    float *out = s->scratch->gdn_out + gate * d->gdn_value_dim;
    gdn_recur(state, q, q + key_width, v, gdn_decay(s->scratch->a[gate], layer->dt_bias[h], layer->decay[h]), sigmoid(s->scratch->b[gate]),
              d->gdn_key_dim, d->gdn_value_dim, buffer, out);
    norm_rms_gated(out, layer->gdn_norm, s->scratch->z + gate * d->gdn_value_dim, d->gdn_value_dim, d->rms_eps);
  }
}

static void recur_share(void *context, uint32_t worker, uint32_t workers) {
  const mixer_task *task = context;
  const step *s = task->step;
  const uint32_t heads = s->desc->gdn_value_heads;
  for (uint32_t item = worker; item < s->batch->span_count * heads; item += workers) {
    recur_head(s, task->layer, &s->batch->spans[item / heads], item % heads, worker_buffer(&s->scratch->workers, worker));
  }
}

void mixer_gdn(const step *s, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  const size_t values = (size_t)d->gdn_value_heads * d->gdn_value_dim;
  const matmul_job inputs[] = {
      {layer->qkv, t->normed, t->qkv, d->hidden, s->model->gdn_channels, rows},
      {layer->z, t->normed, t->z, d->hidden, values, rows},
      {layer->b, t->normed, t->b, d->hidden, d->gdn_value_heads, rows},
      {layer->a, t->normed, t->a, d->hidden, d->gdn_value_heads, rows},
  };
  mixer_task task = {s, layer};
  matmul_run(s->pool, &t->workers, inputs, 4);
  pool_run(s->pool, convolve_share, &task);
  pool_run(s->pool, normalise_share, &task);
  pool_run(s->pool, recur_share, &task);
  const matmul_job output = {layer->out, t->gdn_out, t->mixed, values, d->hidden, rows};
  matmul_run(s->pool, &t->workers, &output, 1);
}
