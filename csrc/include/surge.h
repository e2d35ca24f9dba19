/*
 * surge.h – the one public header of libsurge.so, and the only thing ffi/ knows of it.
 *
 * Rules (ffi/README.md, "the treaty"):
 *  - every call returns a status (0 or negative); detail goes into the caller's surge_error, the last parameter, written only on failure;
 *  - structs cross by pointer, start with struct_size, hold fixed-width fields only; pointers are u64 so that the layout is the same for every caller;
 *  - strings are (pointer, length) UTF-8 and are copied before the call returns; weights are mapped, never copied whole;
 *  - the library never prints, exits, installs signal handlers or calls back. One thread calls it at a time.
 */
#ifndef SURGE_H
#define SURGE_H

#include <stdint.h>

#define SURGE_API __attribute__((visibility("default")))
#define SURGE_ABI_VERSION 1u

/* One list: C enum, names, generated TypeScript. X(NAME, value, meaning) */
#define SURGE_STATUSES(X) \
  X(OK, 0, "done") \
  X(E_ARGUMENT, -1, "a call against the contract: programmer's error") \
  X(E_MEMORY, -2, "memory could not be had") \
  X(E_MISSING, -3, "a file is not there") \
  X(E_IO, -4, "a file could not be read or mapped") \
  X(E_DATA, -5, "a file's content is wrong") \
  X(E_CHANGED, -6, "a file changed since the manifest was made") \
  X(E_DTYPE, -7, "a tensor has a type that is not supported") \
  X(E_CONTEXT, -8, "the sequence's context is full") \
  X(E_LIMIT, -9, "no free sequence, or more rows than a step holds") \
  X(E_DEVICE, -10, "the plan or SURGE_ISA names what this machine does not have") \
  X(E_NUMERIC, -11, "logits are not finite") \
  X(E_POISONED, -12, "the engine is broken and must be closed")

typedef enum surge_status {
#define X(name, value, meaning) SURGE_##name = (value),
  SURGE_STATUSES(X)
#undef X
} surge_status;

/* What a tensor is for. The manifest's `role` strings are these names in lower case. */
#define SURGE_ROLES(X) \
  X(TOKEN_EMBEDDING) X(OUTPUT_NORM) X(OUTPUT) \
  X(ATTN_NORM) X(FFN_NORM) \
  X(ATTN_Q) X(ATTN_K) X(ATTN_V) X(ATTN_OUT) X(ATTN_Q_NORM) X(ATTN_K_NORM) \
  X(GDN_QKV) X(GDN_Z) X(GDN_B) X(GDN_A) X(GDN_CONV) X(GDN_DT_BIAS) X(GDN_DECAY) X(GDN_NORM) X(GDN_OUT) \
  X(ROUTER) X(EXPERT_GATE) X(EXPERT_UP) X(EXPERT_DOWN) \
  X(SHARED_ROUTER) X(SHARED_GATE) X(SHARED_UP) X(SHARED_DOWN) \
  X(MTP_PROJECTION) X(MTP_EMBEDDING_NORM) X(MTP_HIDDEN_NORM) X(MTP_NORM) X(MTP_EMBEDDING) X(MTP_OUTPUT)

typedef enum surge_role {
#define X(name) SURGE_ROLE_##name,
  SURGE_ROLES(X)
#undef X
  SURGE_ROLE_COUNT
} surge_role;

typedef enum surge_layer_kind { SURGE_LAYER_ATTENTION = 0, SURGE_LAYER_GDN = 1 } surge_layer_kind;
typedef enum surge_head_order { SURGE_HEADS_GROUPED = 0, SURGE_HEADS_TILED = 1 } surge_head_order;
typedef enum surge_rope_kind { SURGE_ROPE_DEFAULT = 0, SURGE_ROPE_YARN = 1 } surge_rope_kind;
/* Done to a small tensor after decoding: ADD_ONE for zero-centred norms, NEG_EXP turns A_log into the decay factor -exp(A_log). */
typedef enum surge_transform { SURGE_TRANSFORM_NONE = 0, SURGE_TRANSFORM_ADD_ONE = 1, SURGE_TRANSFORM_NEG_EXP = 2 } surge_transform;
/* BLOCK_128: one scale per 128 x 128 block (FP8 checkpoints); TENSOR: one scale per matrix (NVFP4 files). Weights are multiplied by them. */
typedef enum surge_scale_kind { SURGE_SCALE_BLOCK_128 = 0, SURGE_SCALE_TENSOR = 1 } surge_scale_kind;
/* EXACT: float32 from decoded weights. FAST: activations of 8 bits where the weight's format has a kernel for them. */
typedef enum surge_precision { SURGE_PRECISION_EXACT = 0, SURGE_PRECISION_FAST = 1 } surge_precision;
typedef enum surge_kv_dtype { SURGE_KV_F32 = 0, SURGE_KV_F16 = 1 } surge_kv_dtype;

typedef struct surge_error {
  uint32_t struct_size;
  int32_t status;
  int32_t file;   /* index into the file table, -1: none */
  int32_t tensor; /* index into the tensor table, -1: none */
  uint32_t message_bytes;
  char message[500]; /* one sentence without file and tensor names: the caller knows them by index */
} surge_error;

typedef struct surge_abi_info {
  uint32_t struct_size;
  uint32_t abi_version;
  uint64_t layout_hash; /* FNV-1a over the generated layout; compared before any other call */
} surge_abi_info;

/* A file as the manifest saw it. Mapped read-only; size, time and inode must still be the same. */
typedef struct surge_file_desc {
  uint32_t struct_size;
  uint32_t path_bytes;
  uint64_t path; /* const char *, not terminated */
  uint64_t bytes;
  uint64_t mtime_ns;
  uint64_t inode;
} surge_file_desc;

/*
 * A run of rows of a matrix, for one expert or several at equal distance. A matrix may come in several runs (row_first), so fused, split
 * and interleaved checkpoints are data here and no special case in the engine. Vectors are matrices of one row.
 */
typedef struct surge_tensor_desc {
  uint32_t struct_size;
  uint32_t role;
  int32_t layer; /* -1: not in a layer */
  uint32_t dtype; /* quant/formats.def.h */
  uint32_t file;
  uint32_t expert_first;
  uint32_t expert_count; /* 1 where there are no experts */
  uint32_t row_first;    /* row of the logical matrix at which this run begins */
  uint32_t rows;
  uint32_t cols;
  uint32_t transform;
  int32_t scale; /* index into the scale table, -1: none */
  uint64_t offset; /* of the first expert's first row, from the start of the file */
  uint64_t expert_stride; /* bytes */
} surge_tensor_desc;

typedef struct surge_scale_desc {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t dtype; /* F32, F16 or BF16 */
  uint32_t file;
  uint32_t row_first; /* row of the stored tensor at which the run begins (BLOCK_128: scale row = (row_first + row) / 128) */
  uint32_t scale_rows;
  uint32_t scale_cols;
  uint32_t reserved;
  uint64_t offset;
  uint64_t expert_stride;
} surge_scale_desc;

/* The normalised configuration. All counts in elements. */
typedef struct surge_model_desc {
  uint32_t struct_size;
  uint32_t layers, hidden, vocab;
  uint32_t heads, kv_heads, head_dim, rotary_dim;
  uint32_t attn_gated; /* q rows hold, per head, head_dim of q then head_dim of gate */
  uint32_t gdn_key_heads, gdn_value_heads, gdn_key_dim, gdn_value_dim, gdn_conv; /* 0 where there is no delta net */
  uint32_t gdn_head_order;
  uint32_t experts, experts_used, expert_ff, shared_ff; /* shared_ff 0: no shared expert */
  uint32_t norm_topk; /* renormalise the chosen probabilities */
  uint32_t rope_kind, rope_original_context;
  float rms_eps, rope_theta, rope_factor, rope_beta_fast, rope_beta_slow, rope_attn_factor;
  uint32_t layer_kind_count;
  uint32_t mtp_layers; /* 1: an attention layer numbered `layers`, with the MTP roles, predicts the token after the next */
  uint64_t layer_kinds; /* const uint8_t *, surge_layer_kind per layer */
} surge_model_desc;

typedef struct surge_plan_desc {
  uint32_t struct_size;
  uint32_t precision, kv_dtype;
  uint32_t threads;   /* >= 1 */
  uint32_t context;   /* tokens a sequence may hold */
  uint32_t sequences; /* that may be open at once */
  uint32_t step_rows; /* rows a step may hold */
  uint32_t logits_rows; /* rows of a step that may ask for logits */
  uint32_t npu_devices; /* must be 0 on a build or machine without one */
  uint32_t copy_weights; /* 0: mapped files; 1: read into memory of our own, in huge pages where the system gives them */
  uint32_t draft_rows; /* rows of a sequence in one step that may be taken back; 0: none */
  uint32_t lock_memory; /* 1: weights and everything else the engine takes stay in memory, all of it or the engine is refused */
  uint64_t cpus; /* const uint32_t *, [threads]: the processor each thread runs on, worker 0 being the caller in a step; 0: not pinned */
} surge_plan_desc;

typedef struct surge_engine_desc {
  uint32_t struct_size;
  uint32_t file_count, tensor_count, scale_count;
  uint64_t model, plan; /* const surge_model_desc *, const surge_plan_desc * */
  uint64_t files, tensors, scales; /* arrays */
} surge_engine_desc;

/* Anonymous memory an engine takes, in bytes; all of it is taken by surge_engine_create, nothing later. */
typedef struct surge_memory {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t kv, states, scratch, vectors, tables, total;
  uint64_t mapped; /* file-backed */
  uint64_t copied; /* weights in memory of our own; beside the total */
} surge_memory;

/* Classes of work in a step: the engine's counters, the profile and the metrics are made from this list. */
#define SURGE_OPS(X) \
  X(EMBED) X(NORM) X(MIXER_IN) X(ATTENTION) X(GDN) X(MIXER_OUT) X(ROUTER) X(EXPERT_UP) X(EXPERT_DOWN) X(HEAD)

typedef enum surge_op {
#define X(name) SURGE_OP_##name,
  SURGE_OPS(X)
#undef X
  SURGE_OP_COUNT
} surge_op;

/* Since the engine was made: wall time per class, and what the class read and multiplied. */
typedef struct surge_counters {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t steps, rows;
  uint64_t ns[10], bytes[10], macs[10]; /* by surge_op; bytes of weights, keys, values and states read; multiply-adds */
} surge_counters;

/*
 * What is known of mapped pages, in bytes: MAPPED addresses, RESIDENT in memory, in huge pages (anonymous; of files), LOCKED (the kernel counts a page
 * that several processes have by shares).
 */
#define SURGE_PAGES(X) X(MAPPED) X(RESIDENT) X(ANON_HUGE) X(FILE_HUGE) X(LOCKED)

typedef enum surge_page {
#define X(name) SURGE_PAGE_##name,
  SURGE_PAGES(X)
#undef X
  SURGE_PAGE_COUNT
} surge_page;

/* What an engine really has now, whatever its plan asked for. */
typedef struct surge_placement {
  uint32_t struct_size;
  uint32_t pinned_threads; /* that may run on one processor only */
  uint64_t weights[5], arena[5]; /* by surge_page; the arena is all memory of the engine's own but copied weights */
  uint64_t cpus[128]; /* one bit for each processor that any thread may run on */
} surge_placement;

typedef struct surge_cpu_info {
  uint32_t struct_size;
  uint32_t tile_rows;
  uint32_t name_bytes;
  char name[28]; /* of the kernels in use, as in SURGE_ISA */
} surge_cpu_info;

#define SURGE_ROW_LOGITS 1u
/* surge_sequence_rewind can take the row back. Such rows come last in their sequence's span, after at least one that stays. */
#define SURGE_ROW_DRAFT 2u
typedef struct surge_row {
  uint32_t sequence;
  uint32_t position; /* must be the sequence's length plus the rows before this one in the step */
  uint32_t token;
  uint32_t flags;
} surge_row;

typedef struct surge_logit_bias {
  uint32_t token;
  float bias;
} surge_logit_bias;

#define SURGE_TOP_LOGPROBS_MAX 20u
#define SURGE_LOGIT_BIAS_MAX 1024u
typedef struct surge_sampler_desc {
  uint32_t struct_size;
  float temperature; /* 0: greedy, ties to the lowest id */
  uint32_t top_k;    /* 0: off */
  float top_p, min_p; /* 1 and 0: off */
  float presence_penalty, frequency_penalty; /* over tokens from answer_from on */
  float repeat_penalty; /* 1: off; over the whole sequence */
  uint32_t answer_from; /* position of the answer's first token */
  uint32_t top_logprobs; /* how many to report */
  uint32_t bias_count;
  uint32_t want_logprob; /* of the token chosen: a pass of exponentials over the vocabulary */
  uint64_t biases; /* const surge_logit_bias * */
  uint64_t seed, draw; /* same seed and draw number, same choice */
} surge_sampler_desc;

typedef struct surge_sample {
  uint32_t struct_size;
  uint32_t token;
  float logprob; /* of the untouched logits; 0 unless wanted */
  uint32_t top_count;
  uint32_t top_tokens[SURGE_TOP_LOGPROBS_MAX];
  float top_logprobs[SURGE_TOP_LOGPROBS_MAX];
} surge_sample;

typedef struct surge_engine surge_engine;
typedef struct surge_probe surge_probe;

SURGE_API int32_t surge_abi(surge_abi_info *ret_info);
SURGE_API int32_t surge_engine_measure(const surge_engine_desc *desc, surge_memory *ret_memory, surge_error *err);
SURGE_API int32_t surge_engine_create(const surge_engine_desc *desc, surge_engine **ret_engine, surge_error *err);
SURGE_API void surge_engine_destroy(surge_engine *engine);
SURGE_API int32_t surge_sequence_open(surge_engine *engine, uint32_t *ret_sequence, surge_error *err);
SURGE_API int32_t surge_sequence_fork(surge_engine *engine, uint32_t sequence, uint32_t *ret_sequence, surge_error *err);
SURGE_API int32_t surge_sequence_close(surge_engine *engine, uint32_t sequence, surge_error *err);
/*
 * Takes back the sequence's last rows: it is then as if it had been fed `length` tokens, bit for bit. Possible down to the first
 * SURGE_ROW_DRAFT row of the step that moved it last, once, and not while a step is under way. Logits stay.
 */
SURGE_API int32_t surge_sequence_rewind(surge_engine *engine, uint32_t sequence, uint32_t length, surge_error *err);
/*
 * The MTP layer's guess how each row's sequence goes on: `count` tokens after the row's own, which is the one that follows what the
 * sequence holds. Moves no sequence; one row each; ret_tokens [row_count][count]. Afterwards surge_logits has the last guess's, by row.
 */
SURGE_API int32_t surge_draft(surge_engine *engine, const surge_row *rows, uint32_t row_count, uint32_t count, uint32_t *ret_tokens,
                              surge_error *err);
/* Begins to advance every sequence named by its rows; rows of one sequence are adjacent. On failure no sequence has moved. */
SURGE_API int32_t surge_step_begin(surge_engine *engine, const surge_row *rows, uint32_t row_count, surge_error *err);
/*
 * Goes on with the step until it is done or the next half layer, as far as the last ones tell, would pass budget_us (UINT64_MAX: to the
 * end); at least one half layer is done. While a step is under way, its sequences can be neither forked nor closed, no other step can
 * begin, and there are no logits.
 */
SURGE_API int32_t surge_step_run(surge_engine *engine, uint64_t budget_us, uint32_t *ret_done, surge_error *err);
/* Gives the step up and closes its sequences, which are neither where they were nor where they should be. */
SURGE_API int32_t surge_step_abandon(surge_engine *engine, surge_error *err);
SURGE_API int32_t surge_engine_counters(const surge_engine *engine, surge_counters *ret_counters, surge_error *err);
/* Reads /proc/self/smaps, which takes milliseconds: for reports. */
SURGE_API int32_t surge_engine_placement(surge_engine *engine, surge_placement *ret_placement, surge_error *err);
/* The kernels this processor and SURGE_ISA select. */
SURGE_API int32_t surge_cpu(surge_cpu_info *ret_info, surge_error *err);
/* Logits of the n-th row of the last step that asked for them: vocab floats. */
SURGE_API int32_t surge_logits(surge_engine *engine, uint32_t logits_row, float *ret_logits, uint32_t count, surge_error *err);
SURGE_API int32_t surge_sample_row(surge_engine *engine, uint32_t logits_row, uint32_t sequence, const surge_sampler_desc *sampler,
                                   surge_sample *ret_sample, surge_error *err);
/* This machine's limits, for reports: bytes read per second and 8-bit multiply-adds per second, all threads at once. */
SURGE_API int32_t surge_probe_open(uint32_t threads, uint64_t bytes, surge_probe **ret_probe, surge_error *err);
SURGE_API double surge_probe_bandwidth(surge_probe *probe);
SURGE_API double surge_probe_int8(surge_probe *probe);
SURGE_API void surge_probe_close(surge_probe *probe);

#endif
