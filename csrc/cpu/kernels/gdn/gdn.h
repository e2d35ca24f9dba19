/*
 * gdn.h – the Gated DeltaNet recurrence of one value head over the tokens of a span (Yang et al., arXiv 2412.06464).
 *
 * Per token: S ← decay·S; d = beta·(v − Sᵀk); S ← S + k dᵀ; ret = Sᵀq. Value columns are independent of each other, so all tokens are run
 * over a slice of columns that stays in the first-level cache; slices are stored one after the other, which makes their first reading linear.
 * A token's delta is written and the next token's sums are read in one pass over the slice, which needs no more operations than the chunked
 * form's matrix products and gives the same bits wherever a prompt is cut.
 */
#ifndef CPU_KERNELS_GDN_H
#define CPU_KERNELS_GDN_H

#include <stddef.h>
#include <stdint.h>

/* Columns of a slice: with 128 keys it takes 32 KiB. The last slice may be narrower. */
enum { GDN_SLICE = 64 };

typedef struct gdn_span {
  float *state; /* slices of columns, each [key_dim][its columns] */
  const float *q, *k, *v; /* of the first token; the next is `stride` floats further. q is scaled already */
  const float *decay, *beta; /* `gate_stride` apart */
  float *ret; /* [value_dim], `ret_stride` apart */
  size_t stride, gate_stride, ret_stride;
  uint32_t count, key_dim, value_dim;
} gdn_span;

/* Bits do not depend on where spans are cut, nor on the variant. */
typedef void (*gdn_recur_fn)(const gdn_span *s);

void gdn_recur_ref(const gdn_span *s);
void gdn_recur_avx2(const gdn_span *s);
void gdn_recur_avx512(const gdn_span *s);
void gdn_recur_neon(const gdn_span *s);

#endif
