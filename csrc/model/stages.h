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
/* The span that holds a row. */
const model_span *stage_span(const step *s, uint32_t row);
/* The spans' state of a delta-net layer: convolution, then recurrence. */
float *stage_state(const step *s, const model_span *span, const model_layer *layer);

/* scratch.normed → scratch.mixed: [rows][heads * head_dim or value heads * value_dim]. */
void mixer_attention(step *s, uint32_t worker, const model_layer *layer);
void mixer_gdn(step *s, uint32_t worker, const model_layer *layer);
/* scratch.normed → added to the residual. */
void moe_forward(step *s, uint32_t worker, const model_layer *layer);

#endif
