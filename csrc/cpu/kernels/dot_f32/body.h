/* body.h – lanes_dot() of one row with four others at a time, whose sums are independent and fill the pipeline. Included by the variants only. */
#include "cpu/kernels/dot_f32/dot_f32.h"
#include "cpu/kernels/lanes.h"

enum { TOGETHER = 4, PARTS = 16 / LANES };

/* Bit for bit lanes_dot(): the same partial sums in the same order. */
LANES_INLINE void dot_four(const float *w, const float *const *x, uint32_t n, float *ret) {
  lanes part[TOGETHER][PARTS];
#pragma GCC unroll 16
  for (uint32_t t = 0; t < TOGETHER; t++) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < PARTS; j++) {
      part[t][j] = lanes_set(0);
    }
  }
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < PARTS; j++) {
      const lanes v = lanes_load(w + i + j * LANES);
#pragma GCC unroll 16
      for (uint32_t t = 0; t < TOGETHER; t++) {
        part[t][j] = lanes_fma(v, lanes_load(x[t] + i + j * LANES), part[t][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (uint32_t t = 0; t < TOGETHER; t++) {
    for (int half = PARTS / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
      for (int j = 0; j < half; j++) {
        part[t][j] = lanes_add(part[t][j], part[t][j + half]);
      }
    }
    ret[t] = lanes_sum(part[t][0]);
    for (uint32_t e = i; e < n; e++) {
      ret[t] = fmaf(w[e], x[t][e], ret[t]);
    }
  }
}

static void dot_rows(const dot_f32_rows *r) {
  uint32_t i = 0;
  for (; i + TOGETHER <= r->count; i += TOGETHER) {
    const float *x[TOGETHER];
    float sums[TOGETHER];
#pragma GCC unroll 16
    for (uint32_t t = 0; t < TOGETHER; t++) {
      x[t] = r->x + r->tokens[i + t] * r->x_stride;
    }
    dot_four(r->w, x, r->n, sums);
#pragma GCC unroll 16
    for (uint32_t t = 0; t < TOGETHER; t++) {
      r->ret[(i + t) * r->ret_stride] = sums[t];
    }
  }
  for (; i < r->count; i++) {
    r->ret[i * r->ret_stride] = lanes_dot(r->w, r->x + r->tokens[i] * r->x_stride, r->n);
  }
}
