/* mixer_attention.h – sizes of attention's scratch, for configure.c. */
#ifndef MODEL_MIXER_ATTENTION_H
#define MODEL_MIXER_ATTENTION_H

#include "cpu/kv.h"

enum {
  ATTENTION_SPLIT_ROWS = 8,   /* steps of at most this many rows attend to splits in parallel */
  ATTENTION_SPLITS_MAX = 32,  /* of a full context */
  ATTENTION_SPLIT_PAGES = 16, /* at least, per split */
};

/* Floats of one head of one split. */
static inline size_t attention_partial_floats(const surge_model_desc *d) { return (size_t)d->head_dim + 2; }

static inline uint32_t attention_split_pages(uint32_t context) {
  const uint32_t pages = (kv_pages_for(context) + ATTENTION_SPLITS_MAX - 1) / ATTENTION_SPLITS_MAX;
  return pages > ATTENTION_SPLIT_PAGES ? pages : ATTENTION_SPLIT_PAGES;
}

#endif
