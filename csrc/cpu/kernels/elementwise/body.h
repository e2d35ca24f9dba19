/* body.h – the functions of elementwise.h, once for all widths. Included by the variants only. */
#include "cpu/kernels/elementwise/elementwise.h"
#include "cpu/kernels/lanes.h"

/* Runs the statement, which uses i and part, for every whole vector and once for the rest. */
#define EACH(n, statement) \
  do { \
    uint32_t i = 0; \
    for (; i + LANES <= (n); i += LANES) { \
      const uint32_t part = LANES; \
      (void)part; \
      statement \
    } \
    if (LANES > 1 && i < (n)) { \
      const uint32_t part = (n) - i; \
      statement \
    } \
  } while (0)

LANES_INLINE lanes load_some(const float *p, uint32_t part) { return part == LANES ? lanes_load(p) : lanes_load_part(p, part); }

LANES_INLINE void store_some(float *p, lanes v, uint32_t part) {
  if (part == LANES) {
    lanes_store(p, v);
  } else {
    lanes_store_part(p, v, part);
  }
}

LANES_INLINE lanes lanes_silu(lanes x) { return lanes_mul(x, lanes_sigmoid(x)); }

static float rms_scale(const float *x, uint32_t n, float eps) { return 1.0f / sqrtf(lanes_dot(x, x, n) / (float)n + eps); }

static void norm_rms(const float *x, const float *weight, uint32_t n, float eps, float *ret) {
  const lanes scale = lanes_set(rms_scale(x, n, eps));
  EACH(n, { store_some(ret + i, lanes_mul(lanes_mul(load_some(x + i, part), scale), load_some(weight + i, part)), part); });
}

static void norm_l2(float *x, uint32_t n, float eps, float factor) {
  const lanes scale = lanes_set(factor / sqrtf(lanes_dot(x, x, n) + eps));
  EACH(n, { store_some(x + i, lanes_mul(load_some(x + i, part), scale), part); });
}

static void norm_gated(float *x, const float *weight, const float *gate, uint32_t n, float eps) {
  const lanes scale = lanes_set(rms_scale(x, n, eps));
  EACH(n, {
    const lanes normed = lanes_mul(lanes_mul(load_some(x + i, part), scale), load_some(weight + i, part));
    store_some(x + i, lanes_mul(normed, lanes_silu(load_some(gate + i, part))), part);
  });
}

static void swiglu(float *gate, const float *up, uint32_t n) {
  EACH(n, { store_some(gate + i, lanes_mul(lanes_silu(load_some(gate + i, part)), load_some(up + i, part)), part); });
}

static void gate_sigmoid(float *x, const float *gate, uint32_t n) {
  EACH(n, { store_some(x + i, lanes_mul(load_some(x + i, part), lanes_sigmoid(load_some(gate + i, part))), part); });
}

static void add_scaled(float *ret, const float *x, float factor, uint32_t n) {
  const lanes f = lanes_set(factor);
  EACH(n, { store_some(ret + i, lanes_fma(load_some(x + i, part), f, load_some(ret + i, part)), part); });
}

static void convolve(const float *const *taps, uint32_t tap_count, const float *weight, uint32_t stride, uint32_t n, float *ret) {
  EACH(n, {
    lanes sum = lanes_set(0);
    for (uint32_t j = 0; j < tap_count; j++) {
      sum = lanes_fma(load_some(weight + (size_t)j * stride + i, part), load_some(taps[j] + i, part), sum);
    }
    store_some(ret + i, lanes_silu(sum), part);
  });
}

#define ELEMENTWISE_TABLE {norm_rms, norm_l2, norm_gated, swiglu, gate_sigmoid, add_scaled, convolve}
