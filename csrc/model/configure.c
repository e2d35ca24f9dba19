/* configure.c – checks of the configuration and the memory it needs. Sizes are bounded here, so later products cannot overflow. */
#include <string.h>

#include "base/error.h"
#include "cpu/rope.h"
#include "model/mixer_attention.h"
#include "model/model.h"

enum { MAX_LAYERS = 1024, MAX_DIM = 1 << 20, MAX_VOCAB = 1 << 22, MAX_EXPERTS = 4096 };

static int32_t check_sizes(const surge_model_desc *d, surge_error *err) {
  const uint32_t dims[] = {d->hidden, d->heads, d->kv_heads, d->head_dim, d->experts_used, d->expert_ff, d->vocab, d->layers, d->experts};
  for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
    if (dims[i] == 0 || dims[i] > MAX_VOCAB) {
      return error_set(err, SURGE_E_DATA, "the configuration has a size of %u, which is absurd", dims[i]);
    }
  }
  if (d->layers > MAX_LAYERS || d->layer_kind_count != d->layers || d->hidden > MAX_DIM || d->experts > MAX_EXPERTS ||
      d->experts_used > d->experts || d->expert_ff > MAX_DIM || d->shared_ff > MAX_DIM) {
    return error_set(err, SURGE_E_DATA, "the configuration has %u layers (%u kinds), hidden size %u, %u of %u experts", d->layers,
                     d->layer_kind_count, d->hidden, d->experts_used, d->experts);
  }
  if (d->mtp_layers > 1) {
    return error_set(err, SURGE_E_DATA, "the configuration has %u prediction layers where at most one is supported", d->mtp_layers);
  }
  if (d->heads % d->kv_heads != 0 || d->rotary_dim > d->head_dim || d->rotary_dim % 2 != 0 || d->heads / d->kv_heads > ATTENTION_HEADS_MAX || (uint64_t)d->heads * d->head_dim > MAX_DIM) {
    return error_set(err, SURGE_E_DATA, "the attention has %u heads of %u over %u KV heads with %u rotated", d->heads, d->head_dim,
                     d->kv_heads, d->rotary_dim);
  }
  return SURGE_OK;
}

static int32_t check_gdn(const surge_model_desc *d, surge_error *err) {
  const uint64_t keys = (uint64_t)d->gdn_key_heads * d->gdn_key_dim;
  const uint64_t values = (uint64_t)d->gdn_value_heads * d->gdn_value_dim;
  if (keys == 0 || values == 0 || keys > MAX_DIM || values > MAX_DIM || d->gdn_value_heads % d->gdn_key_heads != 0 || d->gdn_conv < 1 ||
      d->gdn_conv > 16 || (uint64_t)d->gdn_key_dim * d->gdn_value_dim > MAX_DIM) {
    return error_set(err, SURGE_E_DATA, "the delta net has %u key heads of %u, %u value heads of %u and %u taps", d->gdn_key_heads,
                     d->gdn_key_dim, d->gdn_value_heads, d->gdn_value_dim, d->gdn_conv);
  }
  return SURGE_OK;
}

static int32_t count_layers(model *m, const uint8_t *kinds, surge_error *err) {
  for (uint32_t i = 0; i < m->desc.layers; i++) {
    if (kinds[i] > SURGE_LAYER_GDN) {
      return error_set(err, SURGE_E_ARGUMENT, "layer %u has kind %u", i, kinds[i]);
    }
    m->gdn_layers += kinds[i] == SURGE_LAYER_GDN;
    m->attention_layers += kinds[i] == SURGE_LAYER_ATTENTION;
  }
  return m->gdn_layers > 0 ? check_gdn(&m->desc, err) : SURGE_OK;
}

int32_t model_configure(model *m, const surge_model_desc *desc, const surge_plan_desc *plan, arena *memory, surge_error *err) {
  *m = (model){.desc = *desc, .precision = plan->precision, .split_pages = attention_split_pages(plan->context),
               .journal_rows = plan->draft_rows > 0 ? plan->draft_rows + 1 : 0};
  int32_t status = cpu_dispatch(&m->kernels, err);
  if (status == SURGE_OK) {
    status = check_sizes(desc, err);
  }
  if (status == SURGE_OK) {
    status = count_layers(m, (const uint8_t *)(uintptr_t)desc->layer_kinds, err);
  }
  if (status < 0) {
    return status;
  }
  if (m->gdn_layers > 0) {
    const surge_model_desc *d = &m->desc;
    m->gdn_channels = 2 * d->gdn_key_heads * d->gdn_key_dim + d->gdn_value_heads * d->gdn_value_dim;
    m->conv_floats = (size_t)(d->gdn_conv - 1) * m->gdn_channels;
    m->recurrent_floats = (size_t)d->gdn_value_heads * d->gdn_key_dim * d->gdn_value_dim;
  }
  uint8_t *kinds = arena_take(memory, desc->layers, 1);
  m->layers = arena_take(memory, desc->layers * sizeof(model_layer), _Alignof(model_layer));
  if (!arena_measuring(memory) && m->layers != NULL) {
    memcpy(kinds, (const void *)(uintptr_t)desc->layer_kinds, desc->layers);
    m->layer_kinds = kinds;
  }
  return SURGE_OK;
}

size_t model_state_floats(const model *m) { return m->gdn_layers * (m->conv_floats + m->recurrent_floats); }

size_t model_journal_floats(const model *m) {
  return (size_t)m->gdn_layers * m->journal_rows * (m->gdn_channels + (size_t)2 * m->desc.gdn_value_heads);
}

uint32_t model_kv_layers(const model *m) { return m->attention_layers + m->desc.mtp_layers; }

static float *floats(arena *memory, size_t count) { return arena_take(memory, count * sizeof(float), 64); }

static uint32_t largest(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* A worker decodes one weight row at a time, or sums two splits of one key-value head's query heads. */
static void reserve_workers(model *m, const surge_plan_desc *plan, arena *memory) {
  const surge_model_desc *d = &m->desc;
  uint32_t widest = largest(largest(d->hidden, d->heads * d->head_dim), largest(d->expert_ff, d->shared_ff));
  widest = largest(widest, d->gdn_value_heads * d->gdn_value_dim);
  widest = largest(widest, d->mtp_layers > 0 ? 2 * d->hidden : 0);
  widest = largest(widest, 2 * d->heads / d->kv_heads * d->head_dim);
  worker_scratch *workers = arena_take(memory, plan->threads * sizeof(worker_scratch), _Alignof(worker_scratch));
  for (uint32_t i = 0; i < plan->threads; i++) {
    const worker_scratch w = {floats(memory, widest),
                              {floats(memory, matmul_tile_floats(plan->step_rows)), floats(memory, matmul_tile_floats(plan->step_rows))}};
    if (!arena_measuring(memory) && workers != NULL) {
      workers[i] = w;
    }
  }
  m->scratch.workers = workers;
}

static void reserve_attention(model *m, size_t rows, arena *memory) {
  const surge_model_desc *d = &m->desc;
  model_scratch *s = &m->scratch;
  s->q = floats(memory, rows * d->heads * d->head_dim * (d->attn_gated ? 2 : 1));
  s->k = floats(memory, rows * d->kv_heads * d->head_dim);
  s->v = floats(memory, rows * d->kv_heads * d->head_dim);
  s->partials = floats(memory, (size_t)ATTENTION_SPLIT_ROWS * ATTENTION_SPLITS_MAX * d->heads * attention_partial_floats(d));
}

static void reserve_gdn(model *m, size_t rows, arena *memory) {
  const surge_model_desc *d = &m->desc;
  model_scratch *s = &m->scratch;
  s->qkv = floats(memory, rows * m->gdn_channels);
  s->convolved = floats(memory, rows * m->gdn_channels);
  s->z = floats(memory, rows * d->gdn_value_heads * d->gdn_value_dim);
  s->b = floats(memory, rows * d->gdn_value_heads);
  s->a = floats(memory, rows * d->gdn_value_heads);
}

static void reserve_experts(model *m, size_t rows, arena *memory) {
  const surge_model_desc *d = &m->desc;
  model_scratch *s = &m->scratch;
  const size_t pairs = rows * d->experts_used;
  const size_t slots = pairs + (d->shared_ff > 0 ? rows : 0);
  s->router = floats(memory, rows * d->experts);
  s->shared_weight = floats(memory, rows);
  s->chosen = arena_take(memory, pairs * sizeof(uint32_t), 64);
  s->order = arena_take(memory, pairs * sizeof(uint32_t), 64);
  s->tokens = arena_take(memory, pairs * sizeof(uint32_t), 64);
  s->starts = arena_take(memory, (d->experts + 2) * sizeof(uint32_t), 64);
  s->identity = arena_take(memory, slots * sizeof(uint32_t), 64);
  s->tasks = arena_take(memory, (d->experts + 1) * sizeof(expert_task), 64);
  s->weights = floats(memory, pairs);
  activation_reserve(&s->expert_hidden, slots, largest(d->expert_ff, d->shared_ff), m->precision, memory);
  s->expert_out = floats(memory, slots * d->hidden);
}

void model_reserve(model *m, const surge_plan_desc *plan, arena *memory) {
  const surge_model_desc *d = &m->desc;
  model_scratch *s = &m->scratch;
  const size_t rows = plan->step_rows;
  s->residual = floats(memory, rows * d->hidden);
  s->projected = floats(memory, rows * d->hidden);
  activation_reserve(&s->normed, rows, d->hidden, m->precision, memory);
  const uint32_t attended = model_kv_layers(m) > 0 ? d->heads * d->head_dim : 0;
  activation_reserve(&s->mixed, rows, largest(attended, d->gdn_value_heads * d->gdn_value_dim), m->precision, memory);
  s->rope = floats(memory, rows * d->rotary_dim);
  s->frequencies = arena_take(memory, d->rotary_dim * sizeof(double), _Alignof(double));
  if (model_kv_layers(m) > 0) {
    reserve_attention(m, rows, memory);
  }
  if (m->gdn_layers > 0) {
    reserve_gdn(m, rows, memory);
  }
  reserve_experts(m, rows, memory);
  s->logits = floats(memory, (size_t)plan->logits_rows * d->vocab);
  if (d->mtp_layers > 0) {
    s->hidden = floats(memory, rows * d->hidden);
    activation_reserve(&s->predicted, rows, (size_t)2 * d->hidden, m->precision, memory);
  }
  reserve_workers(m, plan, memory);
}

void model_ready(model *m, const surge_plan_desc *plan) {
  const uint32_t slots = plan->step_rows * (m->desc.experts_used + (m->desc.shared_ff > 0));
  rope_frequencies(&m->desc, m->scratch.frequencies);
  for (uint32_t i = 0; i < slots; i++) {
    m->scratch.identity[i] = i;
  }
}
