/* body.h – the recurrence once for all widths. Included by the variants only. */
#include "cpu/kernels/gdn/gdn.h"
#include "cpu/kernels/lanes.h"

enum { SLICE_LANES = GDN_SLICE / LANES };

/* One token over the slice at `state`. Reads of the old state give Sᵀk and Sᵀq; qk = q·k corrects the latter. */
LANES_INLINE void recur_token(const gdn_span *s, float *state, uint32_t column, uint32_t token, float qk) {
  const float *q = s->q + token * s->stride;
  const float *k = s->k + token * s->stride;
  const float *v = s->v + token * s->stride + column;
  const float decay = s->decay[token * s->gate_stride];
  const float beta = s->beta[token * s->gate_stride];
  lanes by_k[SLICE_LANES];
  lanes by_q[SLICE_LANES];
#pragma GCC unroll 16
  for (int j = 0; j < SLICE_LANES; j++) {
    by_k[j] = lanes_set(0);
    by_q[j] = lanes_set(0);
  }
  for (uint32_t i = 0; i < s->key_dim; i++) {
    const lanes ki = lanes_set(k[i]);
    const lanes qi = lanes_set(q[i]);
#pragma GCC unroll 16
    for (int j = 0; j < SLICE_LANES; j++) {
      const lanes row = lanes_load(state + (size_t)i * GDN_SLICE + j * LANES);
      by_k[j] = lanes_fma(row, ki, by_k[j]);
      by_q[j] = lanes_fma(row, qi, by_q[j]);
    }
  }
  lanes delta[SLICE_LANES];
#pragma GCC unroll 16
  for (int j = 0; j < SLICE_LANES; j++) {
    const lanes error = lanes_fma(by_k[j], lanes_set(-decay), lanes_load(v + j * LANES));
    delta[j] = lanes_mul(error, lanes_set(beta));
    const lanes out = lanes_fma(delta[j], lanes_set(qk), lanes_mul(by_q[j], lanes_set(decay)));
    lanes_store(s->ret + token * s->ret_stride + column + j * LANES, out);
  }
  for (uint32_t i = 0; i < s->key_dim; i++) {
    const lanes ki = lanes_set(k[i]);
#pragma GCC unroll 16
    for (int j = 0; j < SLICE_LANES; j++) {
      float *at = state + (size_t)i * GDN_SLICE + j * LANES;
      lanes_store(at, lanes_fma(ki, delta[j], lanes_mul(lanes_load(at), lanes_set(decay))));
    }
  }
}

/* The same for one column of a narrower slice of `width` columns. */
static void recur_column(const gdn_span *s, float *state, uint32_t column, uint32_t width, uint32_t token, float qk) {
  const float *q = s->q + token * s->stride;
  const float *k = s->k + token * s->stride;
  const float decay = s->decay[token * s->gate_stride];
  float by_k = 0;
  float by_q = 0;
  for (uint32_t i = 0; i < s->key_dim; i++) {
    by_k = fmaf(state[(size_t)i * width], k[i], by_k);
    by_q = fmaf(state[(size_t)i * width], q[i], by_q);
  }
  const float delta = fmaf(by_k, -decay, s->v[token * s->stride + column]) * s->beta[token * s->gate_stride];
  s->ret[token * s->ret_stride + column] = fmaf(delta, qk, by_q * decay);
  for (uint32_t i = 0; i < s->key_dim; i++) {
    float *at = &state[(size_t)i * width];
    *at = fmaf(k[i], delta, *at * decay);
  }
}

static void recur(const gdn_span *s) {
  for (uint32_t column = 0; column < s->value_dim; column += GDN_SLICE) {
    float *state = s->state + (size_t)column * s->key_dim;
    const uint32_t width = s->value_dim - column < GDN_SLICE ? s->value_dim - column : GDN_SLICE;
    for (uint32_t t = 0; t < s->count; t++) {
      const float qk = lanes_dot(s->q + t * s->stride, s->k + t * s->stride, s->key_dim);
      if (width == GDN_SLICE) {
        recur_token(s, state, column, t, qk);
        continue;
      }
      for (uint32_t c = 0; c < width; c++) {
        recur_column(s, state + c, column + c, width, t, qk);
      }
    }
  }
}
