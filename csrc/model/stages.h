/* stages.h – what the files of the forward pass share: one step's context. Internal to model/. */
#ifndef MODEL_STAGES_H
#define MODEL_STAGES_H

#include "model/model.h"

typedef struct step {
  const model *model;
  const surge_model_desc *desc;
  const model_scratch *scratch;
  pool *pool;
  kv_pool *kv;
  const model_batch *batch;
} step;

/* scratch.normed → scratch.mixed, [rows][hidden]. */
void mixer_attention(const step *s, const model_layer *layer);
void mixer_gdn(const step *s, const model_layer *layer);
void moe_forward(const step *s, const model_layer *layer);

#endif
