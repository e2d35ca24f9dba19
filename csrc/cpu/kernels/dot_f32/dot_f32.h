/* dot_f32.h – one decoded weight row times activation rows in float32: precision exact, and the formats that matmul_q8 has no kernel for. */
#ifndef CPU_KERNELS_DOT_F32_H
#define CPU_KERNELS_DOT_F32_H

#include <stddef.h>
#include <stdint.h>

/* ret[i * ret_stride] = w · x[tokens[i]], rows of x `x_stride` floats apart. The bits of a result depend on its two vectors alone. */
typedef struct dot_f32_rows {
  const float *w; /* [n] */
  const float *x;
  size_t x_stride, ret_stride;
  const uint32_t *tokens; /* [count] */
  float *ret;
  uint32_t n, count;
} dot_f32_rows;

typedef void (*dot_f32_fn)(const dot_f32_rows *r);

void dot_f32_ref(const dot_f32_rows *r);
void dot_f32_avx2(const dot_f32_rows *r);
void dot_f32_avx512(const dot_f32_rows *r);
void dot_f32_neon(const dot_f32_rows *r);

#endif
