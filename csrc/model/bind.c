/*
 * bind.c – from (role, layer, expert) in the store to the pointers the forward pass uses, with every shape checked.
 *
 * Matrices stay where they are mapped; vectors (norms, convolution taps, decays) are decoded to float32 once, with their
 * transforms, since they are small and read by element.
 */
#include <math.h>

#include "base/error.h"
#include "model/model.h"

typedef struct binder {
  const model *model;
  const store *weights; /* NULL while measuring */
  arena *memory;
  surge_error *err;
  int32_t layer;
  int32_t status; /* first failure; later calls do nothing */
} binder;

static const char *const ROLE_NAMES[] = {
#define X(name) #name,
    SURGE_ROLES(X)
#undef X
};

static const store_entry *find(binder *b, uint32_t role, uint32_t expert, uint32_t rows, uint32_t cols) {
  if (b->status < 0 || b->weights == NULL) {
    return NULL;
  }
  const store_entry *entry = store_find(b->weights, role, b->layer, expert);
  if (entry == NULL) {
    b->status = error_set(b->err, SURGE_E_DATA, "tensor %s of layer %d, expert %u is missing", ROLE_NAMES[role], b->layer, expert);
    return NULL;
  }
  if (entry->matrix.rows != rows || entry->matrix.cols != cols) {
    b->status = error_at(b->err, SURGE_E_DATA, -1, entry->tensor, "has %u rows of %u where the configuration demands %u of %u",
                         entry->matrix.rows, entry->matrix.cols, rows, cols);
    return NULL;
  }
  return entry;
}

static weight bind_expert_weight(binder *b, uint32_t role, uint32_t expert, uint32_t rows, uint32_t cols) {
  const store_entry *entry = find(b, role, expert, rows, cols);
  return entry == NULL ? (weight){NULL, MATMUL_Q8_NONE} : weight_make(&entry->matrix, b->model->precision);
}

static weight bind_weight(binder *b, uint32_t role, uint32_t rows, uint32_t cols) { return bind_expert_weight(b, role, 0, rows, cols); }

/* The forms of activations that any of the weights reads. */
static uint32_t blocks_of(const weight *const *weights, size_t count) {
  uint32_t blocks = 0;
  for (size_t i = 0; i < count; i++) {
    blocks |= weight_blocks(weights[i]);
  }
  return blocks;
}

static void transform_vector(uint32_t transform, float *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (transform == SURGE_TRANSFORM_ADD_ONE) {
      values[i] += 1.0f;
    } else if (transform == SURGE_TRANSFORM_NEG_EXP) {
      values[i] = -expf(values[i]);
    }
  }
}

static const float *bind_vector(binder *b, uint32_t role, uint32_t rows, uint32_t cols) {
  const size_t count = (size_t)rows * cols;
  float *values = arena_take(b->memory, count * sizeof(float), 64);
  const store_entry *entry = find(b, role, 0, rows, cols);
  if (entry == NULL) {
    return NULL;
  }
  for (uint32_t row = 0; row < rows; row++) {
    matrix_decode_row(&entry->matrix, row, values + (size_t)row * cols);
  }
  transform_vector(entry->transform, values, count);
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) {
      b->status = error_at(b->err, SURGE_E_DATA, -1, entry->tensor, "holds a value that is not finite (element %zu)", i);
      return NULL;
    }
  }
  return values;
}

static void bind_attention(binder *b, model_layer *l) {
  const surge_model_desc *d = &b->model->desc;
  const uint32_t q_rows = d->heads * d->head_dim;
  l->q = bind_weight(b, SURGE_ROLE_ATTN_Q, q_rows * (d->attn_gated ? 2 : 1), d->hidden);
  l->k = bind_weight(b, SURGE_ROLE_ATTN_K, d->kv_heads * d->head_dim, d->hidden);
  l->v = bind_weight(b, SURGE_ROLE_ATTN_V, d->kv_heads * d->head_dim, d->hidden);
  l->out = bind_weight(b, SURGE_ROLE_ATTN_OUT, d->hidden, q_rows);
  l->q_norm = bind_vector(b, SURGE_ROLE_ATTN_Q_NORM, 1, d->head_dim);
  l->k_norm = bind_vector(b, SURGE_ROLE_ATTN_K_NORM, 1, d->head_dim);
  l->in_blocks = blocks_of((const weight *const[]){&l->q, &l->k, &l->v}, 3);
  l->out_blocks = weight_blocks(&l->out);
}

/* The taps of all channels one after the other, as the convolution reads them: [channels][taps] → [taps][channels]. */
static const float *bind_taps(binder *b, uint32_t channels, uint32_t taps) {
  float *turned = arena_take(b->memory, (size_t)channels * taps * sizeof(float), 64);
  const float *values = bind_vector(b, SURGE_ROLE_GDN_CONV, channels, taps);
  for (size_t i = 0; values != NULL && i < (size_t)channels * taps; i++) {
    turned[i % taps * channels + i / taps] = values[i];
  }
  return turned;
}

static void bind_gdn(binder *b, model_layer *l) {
  const surge_model_desc *d = &b->model->desc;
  const uint32_t values = d->gdn_value_heads * d->gdn_value_dim;
  l->qkv = bind_weight(b, SURGE_ROLE_GDN_QKV, b->model->gdn_channels, d->hidden);
  l->z = bind_weight(b, SURGE_ROLE_GDN_Z, values, d->hidden);
  l->b = bind_weight(b, SURGE_ROLE_GDN_B, d->gdn_value_heads, d->hidden);
  l->a = bind_weight(b, SURGE_ROLE_GDN_A, d->gdn_value_heads, d->hidden);
  l->out = bind_weight(b, SURGE_ROLE_GDN_OUT, d->hidden, values);
  l->conv = bind_taps(b, b->model->gdn_channels, d->gdn_conv);
  l->dt_bias = bind_vector(b, SURGE_ROLE_GDN_DT_BIAS, 1, d->gdn_value_heads);
  l->decay = bind_vector(b, SURGE_ROLE_GDN_DECAY, 1, d->gdn_value_heads);
  l->gdn_norm = bind_vector(b, SURGE_ROLE_GDN_NORM, 1, d->gdn_value_dim);
  l->in_blocks = blocks_of((const weight *const[]){&l->qkv, &l->z, &l->b, &l->a}, 4);
  l->out_blocks = weight_blocks(&l->out);
}

static void add_expert(model_layer *l, model_expert *experts, uint32_t at, model_expert expert) {
  experts[at] = expert;
  l->up_blocks |= blocks_of((const weight *const[]){&expert.gate, &expert.up}, 2);
  l->down_blocks |= weight_blocks(&expert.down);
}

static void bind_moe(binder *b, model_layer *l) {
  const surge_model_desc *d = &b->model->desc;
  const uint32_t count = d->experts + (d->shared_ff > 0);
  model_expert *experts = arena_take(b->memory, count * sizeof(model_expert), _Alignof(model_expert));
  l->router = bind_weight(b, SURGE_ROLE_ROUTER, d->experts, d->hidden);
  l->experts = experts;
  for (uint32_t e = 0; e < d->experts && b->weights != NULL && b->status == SURGE_OK; e++) {
    add_expert(l, experts, e, (model_expert){bind_expert_weight(b, SURGE_ROLE_EXPERT_GATE, e, d->expert_ff, d->hidden),
                                             bind_expert_weight(b, SURGE_ROLE_EXPERT_UP, e, d->expert_ff, d->hidden),
                                             bind_expert_weight(b, SURGE_ROLE_EXPERT_DOWN, e, d->hidden, d->expert_ff)});
  }
  if (d->shared_ff > 0 && b->weights != NULL && b->status == SURGE_OK) {
    l->shared_router = bind_weight(b, SURGE_ROLE_SHARED_ROUTER, 1, d->hidden);
    add_expert(l, experts, d->experts, (model_expert){bind_weight(b, SURGE_ROLE_SHARED_GATE, d->shared_ff, d->hidden),
                                                      bind_weight(b, SURGE_ROLE_SHARED_UP, d->shared_ff, d->hidden),
                                                      bind_weight(b, SURGE_ROLE_SHARED_DOWN, d->hidden, d->shared_ff)});
  }
  l->up_blocks |= blocks_of((const weight *const[]){&l->router, &l->shared_router}, d->shared_ff > 0 ? 2 : 1);
}

/* `at`: among the layers of its kind. */
static model_layer bind_layer(binder *b, uint32_t index, uint32_t kind, uint32_t at) {
  const uint32_t hidden = b->model->desc.hidden;
  model_layer layer = {.kind = kind, .index = at};
  b->layer = (int32_t)index;
  layer.attn_norm = bind_vector(b, SURGE_ROLE_ATTN_NORM, 1, hidden);
  layer.ffn_norm = bind_vector(b, SURGE_ROLE_FFN_NORM, 1, hidden);
  if (layer.kind == SURGE_LAYER_ATTENTION) {
    bind_attention(b, &layer);
  } else {
    bind_gdn(b, &layer);
  }
  bind_moe(b, &layer);
  return layer;
}

/* The layer's own matrix, or the model's where the file has no other. */
static weight bind_own_or(binder *b, uint32_t role, weight shared) {
  const int own = b->weights != NULL && store_find(b->weights, role, b->layer, 0) != NULL;
  return own ? bind_weight(b, role, b->model->desc.vocab, b->model->desc.hidden) : shared;
}

static model_mtp bind_mtp(binder *b) {
  const model *m = b->model;
  const uint32_t hidden = m->desc.hidden;
  model_mtp mtp = {.layer = bind_layer(b, m->desc.layers, SURGE_LAYER_ATTENTION, m->attention_layers)};
  mtp.projection = bind_weight(b, SURGE_ROLE_MTP_PROJECTION, hidden, 2 * hidden);
  mtp.embedding_norm = bind_vector(b, SURGE_ROLE_MTP_EMBEDDING_NORM, 1, hidden);
  mtp.hidden_norm = bind_vector(b, SURGE_ROLE_MTP_HIDDEN_NORM, 1, hidden);
  mtp.norm = bind_vector(b, SURGE_ROLE_MTP_NORM, 1, hidden);
  mtp.embedding = bind_own_or(b, SURGE_ROLE_MTP_EMBEDDING, m->embedding);
  mtp.output = bind_own_or(b, SURGE_ROLE_MTP_OUTPUT, m->output);
  return mtp;
}

int32_t model_bind(model *m, const store *weights, arena *memory, surge_error *err) {
  const int measuring = arena_measuring(memory);
  const uint8_t *kinds = measuring ? (const uint8_t *)(uintptr_t)m->desc.layer_kinds : m->layer_kinds;
  binder b = {.model = m, .weights = measuring ? NULL : weights, .memory = memory, .err = err, .layer = -1, .status = SURGE_OK};
  uint32_t kind_counts[2] = {0, 0};
  m->embedding = bind_weight(&b, SURGE_ROLE_TOKEN_EMBEDDING, m->desc.vocab, m->desc.hidden);
  m->output = bind_weight(&b, SURGE_ROLE_OUTPUT, m->desc.vocab, m->desc.hidden);
  m->output_norm = bind_vector(&b, SURGE_ROLE_OUTPUT_NORM, 1, m->desc.hidden);
  for (uint32_t i = 0; i < m->desc.layers && b.status == SURGE_OK; i++) {
    const model_layer layer = bind_layer(&b, i, kinds[i], kind_counts[kinds[i]]++);
    if (!measuring) {
      m->layers[i] = layer;
    }
  }
  if (m->desc.mtp_layers > 0 && b.status == SURGE_OK) {
    m->mtp = bind_mtp(&b);
  }
  return b.status;
}
