/* gdn.c – see gdn.h. */
#include "cpu/gdn.h"

#include <math.h>

#include "cpu/norm.h"

static float tap_input(const float *x, const float *state, uint32_t taps, uint32_t channels, uint32_t channel, int64_t token) {
  return token >= 0 ? x[(size_t)token * channels + channel] : state[(size_t)(token + taps - 1) * channels + channel];
}

void gdn_convolve(const float *x, const float *weight, uint32_t taps, uint32_t channels, uint32_t begin, uint32_t end, uint32_t count,
                  float *state, float *ret) {
  for (uint32_t c = begin; c < end; c++) {
    for (uint32_t t = 0; t < count; t++) {
      float sum = 0;
      for (uint32_t j = 0; j < taps; j++) {
        sum += weight[(size_t)c * taps + j] * tap_input(x, state, taps, channels, c, (int64_t)t + j - (taps - 1));
      }
      ret[(size_t)t * channels + c] = silu(sum);
    }
    /* Ascending order reads only slots that are not written yet. */
    for (uint32_t j = 0; j + 1 < taps; j++) {
      state[(size_t)j * channels + c] = tap_input(x, state, taps, channels, c, (int64_t)count + j - (taps - 1));
    }
  }
}

void gdn_recur(float *state, const float *q, const float *k, const float *v, float decay, float beta, uint32_t key_dim, uint32_t value_dim,
               float *buffer, float *ret) {
  for (uint32_t j = 0; j < value_dim; j++) {
    buffer[j] = 0;
    ret[j] = 0;
  }
  for (uint32_t i = 0; i < key_dim; i++) {
    float *row = state + (size_t)i * value_dim;
    for (uint32_t j = 0; j < value_dim; j++) {
      row[j] *= decay;
      buffer[j] += row[j] * k[i];
    }
  }
  for (uint32_t j = 0; j < value_dim; j++) {
    buffer[j] = beta * (v[j] - buffer[j]);
  }
  for (uint32_t i = 0; i < key_dim; i++) {
    float *row = state + (size_t)i * value_dim;
    for (uint32_t j = 0; j < value_dim; j++) {
      row[j] += k[i] * buffer[j];
      ret[j] += row[j] * q[i];
    }
  }
}

float gdn_decay(float a, float dt_bias, float a_factor) {
  const float x = a + dt_bias;
  const float softplus = x > 20.0f ? x : log1pf(expf(x));
  return expf(a_factor * softplus);
}
