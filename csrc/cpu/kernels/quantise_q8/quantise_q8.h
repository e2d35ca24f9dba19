/*
 * quantise_q8.h – activations to 8 bits: per block of 32 or 256, scale = max|x| / 127 and code = x * (127 / max|x|) to the nearest, ties to even.
 * A block with a value that is not finite gets a scale of NaN, so that a broken weight still shows in the logits.
 */
#ifndef CPU_KERNELS_QUANTISE_Q8_H
#define CPU_KERNELS_QUANTISE_Q8_H

#include <stdint.h>

/* Blocks whose largest magnitude is below this become zero: 127 divided by it must stay finite. */
#define QUANTISE_Q8_TINY 1e-30f

/* x[n], n a multiple of 32; blocks of `block` (32 or 256; the last may be shorter). ret_sums: one per 16. Variants give ref.c's bits. */
typedef void (*quantise_q8_fn)(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums);

void quantise_q8_ref(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums);
void quantise_q8_avx2(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums);
void quantise_q8_neon(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums);

#endif
