/* ref.c – the specification, and the variant of every processor whose compiler vectorises it well enough. */
#include "cpu/kernels/quantise_q8/quantise_q8.h"

#include <math.h>

#include "quant/half.h"

/* |v| <= 127 in; adding 1.5 * 2^23 leaves the rounded integer in the low mantissa bits. NaN gives some code: its scale says what it is worth. */
static int8_t round_code(float v) { return (int8_t)(uint8_t)(quant_f32_to_bits(v + 12582912.0f) & 0xffu); }

void quantise_q8_ref(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums) {
  for (uint32_t first = 0; first < n; first += block) {
    const uint32_t count = n - first < block ? n - first : block;
    float maximum = 0;
    float poison = 0; /* stays 0, or becomes NaN */
    for (uint32_t i = first; i < first + count; i++) {
      maximum = fabsf(x[i]) > maximum ? fabsf(x[i]) : maximum;
      poison += x[i] * 0.0f;
    }
    const float inverse = maximum > QUANTISE_Q8_TINY ? 127.0f / maximum : 0.0f;
    ret_scales[first / block] = maximum / 127.0f + poison;
    for (uint32_t i = first; i < first + count; i++) {
      ret_codes[i] = round_code(x[i] * inverse);
    }
    for (uint32_t g = first / 16; g < (first + count) / 16; g++) {
      int32_t sum = 0;
      for (uint32_t i = 0; i < 16; i++) {
        sum += ret_codes[16 * g + i];
      }
      ret_sums[g] = (int16_t)sum;
    }
  }
}
