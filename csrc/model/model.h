/*
 * model.h – one model made ready to compute: configuration, weights by layer, and the forward pass over a batch of spans.
 *
 * Owns no memory of its own (everything comes from the arena) and no sequence: the engine hands it spans with their KV pages and
 * recurrent states. Invariant: after model_bind every matrix has the shape the configuration demands.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/arena.h"
#include "cpu/kv.h"
#include "cpu/matmul.h"
#include "store/store.h"
#include "surge.h"

typedef struct model_expert {
  const matrix *gate, *up, *down;
} model_expert;

typedef struct model_layer {
  uint32_t kind; /* surge_layer_kind */
  uint32_t index; /* among the layers of its kind: KV layer or state number */
  const float *attn_norm, *ffn_norm;
  const matrix *q, *k, *v, *out; /* out: attention's or the delta net's */
  const float *q_norm, *k_norm;
  const matrix *qkv, *z, *b, *a;
  const float *conv, *dt_bias, *decay, *gdn_norm;
  const matrix *router, *shared_router, *shared_gate, *shared_up, *shared_down;
  const model_expert *experts;
} model_layer;

/* Scratch of one step, in rows of the batch; regions of attention and delta net are apart for clarity, not by need. */
typedef struct model_scratch {
  float *residual, *normed, *mixed; /* [rows][hidden] */
  float *q, *k, *v, *attended;      /* [rows][heads...] */
  float *qkv, *convolved, *z, *b, *a, *gdn_out;
  float *rope; /* [rows][rotary_dim] */
  float *router; /* [rows][experts] */
  uint32_t *chosen, *order, *starts, *active;
  float *weights, *gate, *expert_out; /* per (row, chosen expert) pair */
  float *shared_gate, *shared_up, *shared_out, *shared_weight;
  float *logits; /* [logits_rows][vocab] */
  double *frequencies;
  worker_buffers workers;
} model_scratch;

typedef struct model {
  surge_model_desc desc;
  const uint8_t *layer_kinds;
  const matrix *embedding, *output;
  const float *output_norm;
  model_layer *layers;
  uint32_t attention_layers, gdn_layers;
  uint32_t gdn_channels; /* of the convolution: q | k | v */
  size_t conv_floats, recurrent_floats; /* per delta-net layer of a sequence */
  model_scratch scratch;
} model;

/* Adjacent rows of one sequence. */
typedef struct model_span {
  uint32_t row, count, position;
  const uint32_t *pages; /* of the sequence, covering position + count tokens, owned by it */
  float *states;         /* per delta-net layer: conv state, then recurrent state */
} model_span;

typedef struct model_batch {
  const surge_row *rows;
  uint32_t row_count;
  const model_span *spans;
  uint32_t span_count;
} model_batch;

/* Copies and checks the configuration; needs no files. */
int32_t model_configure(model *m, const surge_model_desc *desc, arena *memory, surge_error *err);
/* Takes scratch for the plan; the same calls measure and take. */
void model_reserve(model *m, const surge_plan_desc *plan, arena *memory);
/* Finds and checks every weight; decodes the vectors. With a measuring arena only the memory is counted. */
int32_t model_bind(model *m, const store *weights, arena *memory, surge_error *err);
/* Tables that depend on the configuration alone; once, after everything is taken. */
void model_ready(model *m);
size_t model_state_floats(const model *m);
/* Advances KV and states of every span and leaves logits of the rows that asked, in order. Cannot fail. */
void model_forward(model *m, pool *p, kv_pool *kv, const model_batch *batch);

#endif
