/* half.h – float16 and bfloat16, exact in both directions (round to nearest, ties to even). */
#ifndef QUANT_HALF_H
#define QUANT_HALF_H

#include <stdint.h>
#include <string.h>

static inline float quant_bits_to_f32(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t quant_f32_to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float quant_bf16_to_f32(uint16_t half) { return quant_bits_to_f32((uint32_t)half << 16); }

static inline float quant_f16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) { /* infinite, NaN */
    return quant_bits_to_f32(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x400u) { /* zero, subnormal: an exact product */
    return quant_bits_to_f32(sign | quant_f32_to_bits((float)magnitude * 0x1p-24f));
  }
  return quant_bits_to_f32(sign | ((magnitude << 13) + (112u << 23)));
}

static inline uint16_t quant_f32_to_f16(float value) {
  const uint32_t bits = quant_f32_to_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u);
  }
  if (magnitude >= 0x477ff000u) { /* 65520 and above round to infinity */
    return (uint16_t)(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 rounds at the subnormal's last bit */
    return (uint16_t)(sign | (quant_f32_to_bits(quant_bits_to_f32(magnitude) + 0.5f) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return (uint16_t)(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

#endif
