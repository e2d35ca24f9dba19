/*
 * ref.c – the plain dot product. Sixteen partial sums (element i goes to sum i mod 16), then a fixed tree; the tail is added last.
 * Independent partial sums let any compiler use the base instruction set's vectors without reordering a single addition.
 */
#include "cpu/kernels/dot_f32/dot_f32.h"

#include <string.h>

typedef float lane4 __attribute__((vector_size(16)));

static lane4 load4(const float *p) {
  lane4 v;
  memcpy(&v, p, sizeof v);
  return v;
}

float dot_f32(const float *a, const float *b, uint32_t n) {
  lane4 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    s0 += load4(a + i) * load4(b + i);
    s1 += load4(a + i + 4) * load4(b + i + 4);
    s2 += load4(a + i + 8) * load4(b + i + 8);
    s3 += load4(a + i + 12) * load4(b + i + 12);
  }
  const lane4 s = (s0 + s1) + (s2 + s3);
  float sum = (s[0] + s[1]) + (s[2] + s[3]);
  for (; i < n; i++) {
    sum += a[i] * b[i];
  }
  return sum;
}
