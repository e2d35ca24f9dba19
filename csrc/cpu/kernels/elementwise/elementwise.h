/*
 * elementwise.h – norms, gates, convolution and sums over one vector, in float32. Every variant gives the same bits: nothing depends on
 * how wide its vectors are. Source of the formulas: transformers modeling_qwen3_5_moe.py.
 */
#ifndef CPU_KERNELS_ELEMENTWISE_H
#define CPU_KERNELS_ELEMENTWISE_H

#include <stdint.h>

typedef struct elementwise_kernels {
  /* ret[i] = x[i] / sqrt(mean(x²) + eps) * weight[i]; ret may be x. */
  void (*norm_rms)(const float *x, const float *weight, uint32_t n, float eps, float *ret);
  /* x[i] = x[i] / sqrt(sum(x²) + eps) * factor. */
  void (*norm_l2)(float *x, uint32_t n, float eps, float factor);
  /* x[i] = rms(x)[i] * weight[i] * silu(gate[i]): the delta net's output norm. */
  void (*norm_gated)(float *x, const float *weight, const float *gate, uint32_t n, float eps);
  /* gate[i] = silu(gate[i]) * up[i]. */
  void (*swiglu)(float *gate, const float *up, uint32_t n);
  /* x[i] *= sigmoid(gate[i]). */
  void (*gate_sigmoid)(float *x, const float *gate, uint32_t n);
  /* ret[i] += factor * x[i]. */
  void (*add_scaled)(float *ret, const float *x, float factor, uint32_t n);
  /* ret[i] = silu(Σ_j weight[j * stride + i] * taps[j][i]): one token of a depthwise convolution of at most 16 taps, oldest first. */
  void (*convolve)(const float *const *taps, uint32_t tap_count, const float *weight, uint32_t stride, uint32_t n, float *ret);
} elementwise_kernels;

extern const elementwise_kernels elementwise_ref, elementwise_avx2, elementwise_avx512, elementwise_neon;

#endif
