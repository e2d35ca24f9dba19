/*
 * stages.h – what the files of the forward pass share: one step's context. Internal to model/.
 *
 * A stage is one task of the pool: every worker runs the same functions, which hand out items with pool_claim() and end each phase with
 * stage_end(). Only worker 0 writes counters.
 */
#ifndef MODEL_STAGES_H
#define MODEL_STAGES_H

#include "model/model.h"

typedef struct step {
  const model *model;
  const surge_model_desc *desc;
  const model_scratch *scratch;
  kv_pool *kv;
  const model_batch *batch;
  matmul_env env;
  surge_counters *counters;
  uint64_t since; /* ns */
} step;

/* Ends a phase for all workers and books its time. */
void stage_end(step *s, uint32_t worker, surge_op op);
/* Books what a phase reads and multiplies; does nothing but for worker 0. */
void stage_book(step *s, uint32_t worker, surge_op op, uint64_t bytes, uint64_t macs);
/* A phase of matrix products. */
void stage_matmul(step *s, uint32_t worker, surge_op op, const matmul_job *jobs, uint32_t job_count);
/* scratch.normed ← RMS norm of the residual's rows, with the 8-bit forms in `blocks`. */
void stage_norm(step *s, uint32_t worker, const float *weight, uint32_t blocks);
/* The row's token to its residual, its position to the table of rotations. */
void stage_embed(const step *s, const weight *embedding, uint32_t row);
/* Row `to` of scratch.normed ← RMS norm of the residual's row `from`. */
void stage_norm_row(const step *s, const float *weights, uint32_t blocks, uint32_t from, uint32_t to);
/* The span that holds a row. */
const model_span *stage_span(const step *s, uint32_t row);
/* A delta-net layer's part of `states`, a span's or those kept for it: convolution, then recurrence. */
float *stage_state(const step *s, float *states, const model_layer *layer);

/* scratch.normed → scratch.mixed: [rows][heads * head_dim or value heads * value_dim]. */
void mixer_attention(step *s, uint32_t worker, const model_layer *layer);
void mixer_gdn(step *s, uint32_t worker, const model_layer *layer);
/* Its second half alone: the recurrence, from the projections. */
void mixer_gdn_recur(step *s, uint32_t worker, const model_layer *layer);
/* scratch.hidden ← the final norm of every row. */
void mtp_keep_hidden(step *s, uint32_t worker);
/* The rows' tokens and hidden states → the residual of the MTP layer. */
void mtp_input(step *s, uint32_t worker);
/* The MTP layer's residual → logits of every row; scratch.hidden ← what takes the hidden state's place for the next guess. */
void mtp_head(step *s, uint32_t worker);
/* scratch.normed → added to the residual. */
void moe_forward(step *s, uint32_t worker, const model_layer *layer);

#endif
