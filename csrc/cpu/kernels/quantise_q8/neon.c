/* neon.c – see quantise_q8.h. 16 values at a time; rounding by the conversion, which rounds to nearest even as ref.c's addition does. */
#include <arm_neon.h>
#include <math.h>

#include "cpu/kernels/quantise_q8/quantise_q8.h"
#include "quant/half.h"

/* Largest magnitude, as the bits of a float: they are ordered as the floats are, and what is not finite comes after all others. */
static uint32_t largest_bits(const float *x, uint32_t n) {
  uint32x4_t top = vdupq_n_u32(0);
  for (uint32_t i = 0; i < n; i += 4) {
    top = vmaxq_u32(top, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
  }
  return vmaxvq_u32(top);
}

/* Eight values to whole numbers of 16 bits. */
static int16x8_t round_eight(const float *x, float inverse) {
  const int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse));
  const int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4), inverse));
  return vcombine_s16(vmovn_s32(low), vmovn_s32(high));
}

void quantise_q8_neon(const float *x, uint32_t n, uint32_t block, int8_t *ret_codes, float *ret_scales, int16_t *ret_sums) {
  for (uint32_t first = 0; first < n; first += block) {
    const uint32_t end = n - first < block ? n : first + block;
    const uint32_t bits = largest_bits(x + first, end - first);
    const int is_finite = bits < 0x7f800000u;
    const float top = quant_bits_to_f32(bits);
    const float inverse = is_finite && top > QUANTISE_Q8_TINY ? 127.0f / top : 0.0f; /* of a broken block the scale alone counts */
    ret_scales[first / block] = is_finite ? top / 127.0f : NAN;
    for (uint32_t i = first; i < end; i += 16) {
      const int8x16_t codes = vcombine_s8(vmovn_s16(round_eight(x + i, inverse)), vmovn_s16(round_eight(x + i + 8, inverse)));
      vst1q_s8(ret_codes + i, codes);
      ret_sums[i / 16] = vaddlvq_s8(codes);
    }
  }
}
