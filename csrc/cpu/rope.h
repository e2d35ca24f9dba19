/*
 * rope.h – rotary position embedding, NEOX pairing, on the first `dim` elements of a head; default and YaRN scaling.
 * Text positions make the three M-RoPE streams equal, so this is exact for text (reference: qwen3_5_moe rotary embedding).
 */
#ifndef CPU_ROPE_H
#define CPU_ROPE_H

#include <stddef.h>
#include <stdint.h>

#include "surge.h"

/* ret_frequencies[dim / 2], radians per position. */
void rope_frequencies(const surge_model_desc *model, double *ret_frequencies);
/* ret_table[dim]: dim/2 cosines, then dim/2 sines, times the attention factor. */
void rope_table(const double *frequencies, uint32_t dim, uint32_t position, float attn_factor, float *ret_table);
void rope_apply(float *head, const float *table, uint32_t dim);

#endif
