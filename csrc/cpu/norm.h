/* norm.h – the normalisations of the family, one vector at a time, sums in float64. */
#ifndef CPU_NORM_H
#define CPU_NORM_H

#include <stddef.h>
#include <stdint.h>

/* ret[i] = x[i] / sqrt(mean(x²) + eps) * weight[i]; ret may be x. */
void norm_rms(const float *x, const float *weight, uint32_t n, float eps, float *ret);
/* x[i] /= sqrt(sum(x²) + eps), then * factor; in place. */
void norm_l2(float *x, uint32_t n, float eps, float factor);
/* x[i] = rms(x)[i] * weight[i] * silu(gate[i]); in place (gated RMSNorm of the delta net). */
void norm_rms_gated(float *x, const float *weight, const float *gate, uint32_t n, float eps);
float silu(float x);
float sigmoid(float x);

#endif
