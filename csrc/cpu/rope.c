/* rope.c – see rope.h. Angles in float64: a float32 angle at position 100000 is wrong in the third digit of its sine. */
#include "cpu/rope.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* Index at which a frequency turns `rotations` times over the original context (YaRN, arXiv 2309.00071, eq. 17 ff.). */
static double correction_index(const surge_model_desc *m, double rotations) {
  return m->rotary_dim * log(m->rope_original_context / (rotations * 2 * PI)) / (2 * log((double)m->rope_theta));
}

static double yarn_ramp(double low, double high, uint32_t i) {
  const double width = high > low ? high - low : 0.001;
  const double ramp = (i - low) / width;
  return ramp < 0 ? 0 : (ramp > 1 ? 1 : ramp);
}

void rope_frequencies(const surge_model_desc *m, double *ret_frequencies) {
  double low = 0;
  double high = 0;
  if (m->rope_kind == SURGE_ROPE_YARN) {
    low = fmax(floor(correction_index(m, (double)m->rope_beta_fast)), 0);
    high = fmin(ceil(correction_index(m, (double)m->rope_beta_slow)), m->rotary_dim - 1.0);
  }
  for (uint32_t i = 0; i < m->rotary_dim / 2; i++) {
    const double base = pow((double)m->rope_theta, -2.0 * i / m->rotary_dim);
    ret_frequencies[i] = base;
    if (m->rope_kind == SURGE_ROPE_YARN) {
      const double ramp = yarn_ramp(low, high, i);
      ret_frequencies[i] = base / (double)m->rope_factor * ramp + base * (1 - ramp);
    }
  }
}

void rope_table(const double *frequencies, uint32_t dim, uint32_t position, float attn_factor, float *ret_table) {
  for (uint32_t i = 0; i < dim / 2; i++) {
    const double angle = position * frequencies[i];
    ret_table[i] = (float)(cos(angle) * (double)attn_factor);
    ret_table[dim / 2 + i] = (float)(sin(angle) * (double)attn_factor);
  }
}

void rope_apply(float *head, const float *table, uint32_t dim) {
  const uint32_t half = dim / 2;
  for (uint32_t i = 0; i < half; i++) {
    const float a = head[i];
    const float b = head[half + i];
    head[i] = a * table[i] - b * table[half + i];
    head[half + i] = b * table[i] + a * table[half + i];
  }
}
