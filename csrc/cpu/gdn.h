/*
 * gdn.h – Gated DeltaNet, token by token, in float32 (Yang et al., arXiv 2412.06464; transformers modeling_qwen3_5_moe.py).
 * The recurrence is the definition; a chunked form must agree with it.
 */
#ifndef CPU_GDN_H
#define CPU_GDN_H

#include <stddef.h>
#include <stdint.h>

/*
 * Causal depthwise convolution of `taps` taps and SiLU over channels [begin, end) of `count` tokens.
 * x, ret [count][channels]; weight [channels][taps], the last tap meets the current token;
 * state [taps - 1][channels]: the raw inputs before the first token, oldest first; left as the inputs before the next token.
 */
void gdn_convolve(const float *x, const float *weight, uint32_t taps, uint32_t channels, uint32_t begin, uint32_t end, uint32_t count,
                  float *state, float *ret);
/*
 * One token of one value head: S ← decay·S; d = beta·(v − Sᵀk); S ← S + k dᵀ; ret = Sᵀq.
 * state [key_dim][value_dim]; q already scaled; buffer [value_dim].
 */
void gdn_recur(float *state, const float *q, const float *k, const float *v, float decay, float beta, uint32_t key_dim, uint32_t value_dim,
               float *buffer, float *ret);
/* exp(a_factor · softplus(a + dt_bias)), in (0, 1]. */
float gdn_decay(float a, float dt_bias, float a_factor);

#endif
