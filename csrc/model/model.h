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
  weight gate, up, down;
} model_expert;

typedef struct model_layer {
  uint32_t kind; /* surge_layer_kind */
  uint32_t index; /* among the layers of its kind: KV layer or state number */
  const float *attn_norm, *ffn_norm;
  weight q, k, v, out; /* out: attention's or the delta net's */
  const float *q_norm, *k_norm;
  weight qkv, z, b, a;
  const float *conv, *dt_bias, *decay, *gdn_norm; /* conv [taps][channels] */
  weight router, shared_router;
  const model_expert *experts; /* the shared expert, if there is one, after the routed ones */
  uint32_t in_blocks, out_blocks, up_blocks, down_blocks; /* forms of activations (weight_blocks) that this layer's weights read */
} model_layer;

/* The layer that predicts the token after the next, with what leads into it and out of it (multi-token prediction). */
typedef struct model_mtp {
  model_layer layer;
  weight embedding, output; /* the model's own, unless the file has others */
  weight projection;        /* [hidden][embedding | hidden state] */
  const float *embedding_norm, *hidden_norm, *norm;
} model_mtp;

/* An expert with the rows of this step that go to it. */
typedef struct expert_task {
  const model_expert *expert;
  const uint32_t *tokens; /* rows of the batch */
  const uint32_t *slots;  /* rows of hidden and expert_out */
  uint32_t count;
} expert_task;

/* Scratch of one step, in rows of the batch. A slot is one (row, chosen expert) pair, or a row's shared expert after all pairs. */
typedef struct model_scratch {
  float *residual; /* [rows][hidden] */
  activation normed, mixed; /* inputs of a layer's first and last projections */
  activation expert_hidden; /* [slots][wider of expert_ff, shared_ff] */
  float *projected; /* [rows][hidden]: what the mixer adds to the residual */
  float *q, *k, *v; /* [rows][heads...] */
  float *qkv, *convolved, *z, *b, *a;
  float *rope; /* [rows][rotary_dim] */
  float *router; /* [rows][experts] */
  float *shared_weight; /* [rows] */
  uint32_t *chosen, *order, *tokens, *starts; /* by slot; starts [experts + 2]: the last is the number of tasks */
  uint32_t *identity; /* 0, 1, 2, … */
  expert_task *tasks; /* [experts + 1] */
  float *weights, *expert_out; /* [slots], [slots][hidden] */
  float *partials; /* attention split over positions, see mixer_attention.c */
  float *logits; /* [logits_rows][vocab] */
  float *hidden; /* [rows][hidden]: after the final norm, for the MTP layer */
  activation predicted; /* [rows][2 hidden]: input of the MTP layer's projection */
  double *frequencies;
  worker_scratch *workers;
} model_scratch;

typedef struct model {
  surge_model_desc desc;
  uint32_t precision;
  const cpu_kernels *kernels;
  const uint8_t *layer_kinds;
  weight embedding, output;
  const float *output_norm;
  model_layer *layers;
  model_mtp mtp; /* where desc.mtp_layers is 1 */
  uint32_t attention_layers, gdn_layers;
  uint32_t gdn_channels; /* of the convolution: q | k | v */
  uint32_t split_pages; /* pages of a sequence that one attention item covers */
  size_t conv_floats, recurrent_floats; /* per delta-net layer of a sequence */
  uint32_t journal_rows; /* a span with rows that may be taken back has at most so many; 0: there is none */
  model_scratch scratch;
} model;

/* Adjacent rows of one sequence. */
typedef struct model_span {
  uint32_t row, count, position;
  const uint32_t *pages; /* of the sequence, covering position + count tokens, owned by it */
  float *states;         /* per delta-net layer: conv state, then recurrent state */
  /* Of a span that may be taken back: states before it, and per delta-net layer [journal_rows][channels | b | a] what it fed to them. */
  float *kept, *journal;
  uint32_t drafts; /* its last rows, that may be taken back */
} model_span;

typedef struct model_batch {
  const surge_row *rows;
  uint32_t row_count;
  const model_span *spans;
  uint32_t span_count;
  const float *const *hidden; /* MTP layer: by row, the hidden state of the token before the row's */
} model_batch;

/* Copies and checks the configuration; needs no files. */
int32_t model_configure(model *m, const surge_model_desc *desc, const surge_plan_desc *plan, arena *memory, surge_error *err);
/* Takes scratch for the plan; the same calls measure and take. */
void model_reserve(model *m, const surge_plan_desc *plan, arena *memory);
/* Finds and checks every weight; decodes the vectors. With a measuring arena only the memory is counted. */
int32_t model_bind(model *m, const store *weights, arena *memory, surge_error *err);
/* Tables that depend on the configuration alone; once, after everything is taken. */
void model_ready(model *m, const surge_plan_desc *plan);
size_t model_state_floats(const model *m);
/* Floats of a span's journal. */
size_t model_journal_floats(const model *m);
/* Attention layers with keys and values in a page: the MTP layer's are the last. */
uint32_t model_kv_layers(const model *m);

/*
 * How far a forward pass has come: stages are the embedding, two per layer (mixer, experts), the head, and for the MTP layer its input,
 * mixer, experts and head. A step ends before the MTP layer, or with its experts, which leaves its keys and values behind.
 */
uint32_t model_stages(const model *m);
uint32_t model_mtp_first_stage(const model *m);
uint32_t model_mtp_head_stage(const model *m);
/* Runs one stage over the batch. After the last, KV and states of every span are advanced and logits of the rows that asked stand in order. */
void model_forward(model *m, pool *p, kv_pool *kv, const model_batch *batch, uint32_t stage, surge_counters *counters);

/* The delta nets' recurrences once more over a span's first `count` rows, from its states and its journal. */
void model_replay(model *m, pool *p, const model_span *span, surge_counters *counters);

#endif
