/*
 * mixer_gdn.c – the Gated DeltaNet mixer over a batch of spans. An item is a key head of a span with the value heads that use it: their
 * channels are convolved, normalised, put through the recurrence and normed by one worker without waiting for another.
 *
 * A span with rows that may be taken back leaves its states and what it fed to them behind, so that the recurrence can be run again over
 * fewer rows: the same code on the same inputs, hence the same bits.
 */
#include <math.h>
#include <string.h>

#include "model/stages.h"

static const float L2_EPS = 1e-6f; /* fixed in the reference, independent of rms_norm_eps */

/* The span's row t of a layer in its journal: [channels | b of the value heads | a of the value heads]. */
static float *journal_row(const step *s, const model_layer *layer, const model_span *span, uint32_t t) {
  const size_t row = s->model->gdn_channels + (size_t)2 * s->desc->gdn_value_heads;
  return span->journal + ((size_t)layer->index * s->model->journal_rows + t) * row;
}

/* Into the journal where the span may be taken back, out of it where the span is replayed (then nothing is kept for it). */
static void exchange(const model_span *span, float *journal, float *values, uint32_t count) {
  memcpy(span->kept != NULL ? journal : values, span->kept != NULL ? values : journal, count * sizeof *values);
}

/* What the convolution of some channels reads: their inputs, and the state it begins with. */
static void journal_channels(const step *s, const model_layer *layer, const model_span *span, uint32_t channel, uint32_t count) {
  const uint32_t channels = s->model->gdn_channels;
  for (uint32_t t = 0; t < span->count; t++) {
    exchange(span, journal_row(s, layer, span, t) + channel, s->scratch->qkv + (size_t)(span->row + t) * channels + channel, count);
  }
  for (uint32_t j = 0; j + 1 < s->desc->gdn_conv && span->kept != NULL; j++) {
    const size_t at = (size_t)j * channels + channel;
    memcpy(stage_state(s, span->kept, layer) + at, stage_state(s, span->states, layer) + at, count * sizeof(float));
  }
}

/* What the recurrence of a value head reads beside the convolved channels: its gates, and the state it begins with. */
static void journal_head(const step *s, const model_layer *layer, const model_span *span, uint32_t h) {
  const surge_model_desc *d = s->desc;
  const size_t floats = (size_t)d->gdn_key_dim * d->gdn_value_dim;
  const size_t at = s->model->conv_floats + h * floats;
  for (uint32_t t = 0; t < span->count; t++) {
    float *row = journal_row(s, layer, span, t) + s->model->gdn_channels;
    const size_t gate = (size_t)(span->row + t) * d->gdn_value_heads + h;
    exchange(span, row + h, s->scratch->b + gate, 1);
    exchange(span, row + d->gdn_value_heads + h, s->scratch->a + gate, 1);
  }
  if (span->kept != NULL) {
    memcpy(stage_state(s, span->kept, layer) + at, stage_state(s, span->states, layer) + at, floats * sizeof(float));
  }
}

/* Channels [channel, channel + count) of all tokens of a span, and of the state: the last taps-1 inputs, oldest first. */
static void convolve(const step *s, const model_layer *layer, const model_span *span, uint32_t channel, uint32_t count) {
  enum { TAPS_MAX = 16 };
  const uint32_t channels = s->model->gdn_channels;
  const uint32_t taps = s->desc->gdn_conv;
  const float *x = s->scratch->qkv + (size_t)span->row * channels + channel;
  float *state = stage_state(s, span->states, layer) + channel;
  if (span->journal != NULL) {
    journal_channels(s, layer, span, channel, count);
  }
  for (uint32_t t = 0; t < span->count; t++) {
    const float *inputs[TAPS_MAX];
    for (uint32_t j = 0; j < taps; j++) {
      const uint32_t back = taps - 1 - j;
      inputs[j] = t >= back ? x + (size_t)(t - back) * channels : state + (size_t)(t + j) * channels;
    }
    s->env.kernels->elementwise->convolve(inputs, taps, layer->conv + channel, channels, count,
                                          s->scratch->convolved + (size_t)(span->row + t) * channels + channel);
  }
  /* Ascending order reads only slots that are not written yet. */
  for (uint32_t j = 0; j + 1 < taps; j++) {
    const uint32_t at = span->count + j;
    const float *from = at >= taps - 1 ? x + (size_t)(at - (taps - 1)) * channels : state + (size_t)at * channels;
    for (uint32_t c = 0; c < count; c++) {
      state[(size_t)j * channels + c] = from[c];
    }
  }
}

/* exp(a_factor · softplus(a + dt_bias)), in (0, 1]. */
static float decay_of(float a, float dt_bias, float a_factor) {
  const float x = a + dt_bias;
  const float softplus = x > 20.0f ? x : log1pf(expf(x));
  return expf(a_factor * softplus);
}

/* b and a of a value head to the write strength and the decay, in place. */
static void open_gates(const step *s, const model_layer *layer, const model_span *span, uint32_t h) {
  for (uint32_t row = span->row; row < span->row + span->count; row++) {
    const size_t gate = (size_t)row * s->desc->gdn_value_heads + h;
    s->scratch->a[gate] = decay_of(s->scratch->a[gate], layer->dt_bias[h], layer->decay[h]);
    s->scratch->b[gate] = 1.0f / (1.0f + expf(-s->scratch->b[gate]));
  }
}

static void run_value_head(const step *s, const model_layer *layer, const model_span *span, uint32_t key_head, uint32_t h) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t key_width = d->gdn_key_heads * d->gdn_key_dim;
  const uint32_t channels = s->model->gdn_channels;
  const float *first = t->convolved + (size_t)span->row * channels;
  const size_t gate = (size_t)span->row * d->gdn_value_heads + h;
  float *out = t->mixed.values + span->row * t->mixed.stride + (size_t)h * d->gdn_value_dim;
  convolve(s, layer, span, 2 * key_width + h * d->gdn_value_dim, d->gdn_value_dim);
  if (span->journal != NULL) {
    journal_head(s, layer, span, h);
  }
  open_gates(s, layer, span, h);
  s->env.kernels->gdn_recur(&(gdn_span){
      .state = stage_state(s, span->states, layer) + s->model->conv_floats + (size_t)h * d->gdn_key_dim * d->gdn_value_dim,
      .q = first + (size_t)key_head * d->gdn_key_dim,
      .k = first + key_width + (size_t)key_head * d->gdn_key_dim,
      .v = first + 2 * key_width + (size_t)h * d->gdn_value_dim,
      .decay = t->a + gate,
      .beta = t->b + gate,
      .ret = out,
      .stride = channels,
      .gate_stride = d->gdn_value_heads,
      .ret_stride = t->mixed.stride,
      .count = span->count,
      .key_dim = d->gdn_key_dim,
      .value_dim = d->gdn_value_dim,
  });
  for (uint32_t i = 0; i < span->count; i++) {
    s->env.kernels->elementwise->norm_gated(out + i * t->mixed.stride, layer->gdn_norm,
                                            t->z + (gate + (size_t)i * d->gdn_value_heads) * d->gdn_value_dim, d->gdn_value_dim, d->rms_eps);
  }
}

static void run_key_head(const step *s, const model_layer *layer, const model_span *span, uint32_t key_head) {
  const surge_model_desc *d = s->desc;
  const uint32_t repeat = d->gdn_value_heads / d->gdn_key_heads;
  const uint32_t key_width = d->gdn_key_heads * d->gdn_key_dim;
  convolve(s, layer, span, key_head * d->gdn_key_dim, d->gdn_key_dim);
  convolve(s, layer, span, key_width + key_head * d->gdn_key_dim, d->gdn_key_dim);
  for (uint32_t row = span->row; row < span->row + span->count; row++) {
    float *q = s->scratch->convolved + (size_t)row * s->model->gdn_channels + (size_t)key_head * d->gdn_key_dim;
    s->env.kernels->elementwise->norm_l2(q, d->gdn_key_dim, L2_EPS, 1.0f / sqrtf((float)d->gdn_key_dim));
    s->env.kernels->elementwise->norm_l2(q + key_width, d->gdn_key_dim, L2_EPS, 1.0f);
  }
  for (uint32_t i = 0; i < repeat; i++) {
    const uint32_t h = d->gdn_head_order == SURGE_HEADS_GROUPED ? key_head * repeat + i : key_head + i * d->gdn_key_heads;
    run_value_head(s, layer, span, key_head, h);
  }
}

void mixer_gdn(step *s, uint32_t worker, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  const model_scratch *t = s->scratch;
  const uint32_t rows = s->batch->row_count;
  const matmul_job inputs[] = {
      {&layer->qkv, &t->normed, t->qkv, s->model->gdn_channels, t->identity, rows},
      {&layer->z, &t->normed, t->z, (size_t)d->gdn_value_heads * d->gdn_value_dim, t->identity, rows},
      {&layer->b, &t->normed, t->b, d->gdn_value_heads, t->identity, rows},
      {&layer->a, &t->normed, t->a, d->gdn_value_heads, t->identity, rows},
  };
  stage_matmul(s, worker, SURGE_OP_MIXER_IN, inputs, 4);
  mixer_gdn_recur(s, worker, layer);
}

void mixer_gdn_recur(step *s, uint32_t worker, const model_layer *layer) {
  const surge_model_desc *d = s->desc;
  uint32_t item = 0;
  uint32_t end = 0;
  while (pool_claim(s->env.pool, s->batch->span_count * d->gdn_key_heads, 1, &item, &end)) {
    run_key_head(s, layer, &s->batch->spans[item / d->gdn_key_heads], item % d->gdn_key_heads);
  }
  stage_book(s, worker, SURGE_OP_GDN, s->batch->span_count * s->model->recurrent_floats * sizeof(float),
             3 * (uint64_t)s->batch->row_count * s->model->recurrent_floats);
  stage_end(s, worker, SURGE_OP_GDN);
}
