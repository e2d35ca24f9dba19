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

/* NaN stays NaN: its upper payload is kept and made quiet, since the kept bits alone could read as infinity. */
static inline uint16_t quant_f32_to_bf16(float value) {
  const uint32_t bits = quant_f32_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)(bits >> 16 | 0x40u);
  }
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* `then` where the condition holds, else `other`: bit arithmetic, because gcc turns a conditional into a branch and stops vectorising. */
static inline uint32_t quant_select(int condition, uint32_t then, uint32_t other) {
  const uint32_t mask = 0u - (uint32_t)condition;
  return (then & mask) | (other & ~mask);
}

static inline float quant_f16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t special = quant_select(magnitude >= 0x7c00u, 112u << 23, 0); /* infinite, NaN: lifts exponent 143 to 255 */
  const uint32_t normal = (magnitude << 13) + (112u << 23) + special;
  const uint32_t subnormal = quant_f32_to_bits((float)(int32_t)magnitude * 0x1p-24f); /* zero too: an exact product */
  return quant_bits_to_f32(sign | quant_select(magnitude < 0x400u, subnormal, normal));
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
