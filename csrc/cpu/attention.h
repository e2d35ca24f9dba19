/*
 * attention.h – causal grouped-query attention of one query head over paged keys and values, without a score matrix.
 * Blocks of KV_BLOCK positions from the sequence's start with a running maximum and sum (flash style): the bits of a row do not
 * depend on how the sequence came to its length.
 */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "cpu/kv.h"

/* Floats of worker memory that attention_head needs. */
size_t attention_buffer_floats(uint32_t head_dim);
/* ret[head_dim] = softmax(q · K[0..position] / sqrt(head_dim)) V. */
void attention_head(const kv_pool *kv, const uint32_t *pages, uint32_t layer, uint32_t kv_head, uint32_t position, const float *q,
                    float *buffer, float *ret);

#endif
