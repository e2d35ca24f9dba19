/* norm.c – see norm.h. Source of the formulas: transformers modeling_qwen3_5_moe.py (RMSNorm, RMSNormGated, l2norm). */
#include "cpu/norm.h"

#include <math.h>

static double sum_of_squares(const float *x, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum += (double)x[i] * (double)x[i];
  }
  return sum;
}

void norm_rms(const float *x, const float *weight, uint32_t n, float eps, float *ret) {
  const float scale = (float)(1.0 / sqrt(sum_of_squares(x, n) / n + (double)eps));
  for (uint32_t i = 0; i < n; i++) {
    ret[i] = x[i] * scale * weight[i];
  }
}

void norm_l2(float *x, uint32_t n, float eps, float factor) {
  const float scale = (float)((double)factor / sqrt(sum_of_squares(x, n) + (double)eps));
  for (uint32_t i = 0; i < n; i++) {
    x[i] *= scale;
  }
}

float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

float silu(float x) { return x * sigmoid(x); }

void norm_rms_gated(float *x, const float *weight, const float *gate, uint32_t n, float eps) {
  const float scale = (float)(1.0 / sqrt(sum_of_squares(x, n) / n + (double)eps));
  for (uint32_t i = 0; i < n; i++) {
    x[i] = x[i] * scale * weight[i] * silu(gate[i]);
  }
}
