/* decode_plain.c – formats without blocks: F32, F16, BF16, F8_E4M3 (the codes alone; the caller applies block scales). */
#include <string.h>

#include "quant/blocks.h"
#include "quant/decode.h"

void decode_F32(const void *restrict blocks, float *restrict ret_values, size_t block_count) { memcpy(ret_values, blocks, block_count * sizeof(float)); }

/* Whole chunks have a constant length, which is what compilers vectorise without being asked for more than -O2. */
enum { CHUNK = 16 };

void decode_F16(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *p = blocks;
  size_t i = 0;
  for (; block_count - i >= CHUNK; i += CHUNK) {
    for (size_t j = 0; j < CHUNK; j++) {
      ret_values[i + j] = read_f16(p + 2 * (i + j));
    }
  }
  for (; i < block_count; i++) {
    ret_values[i] = read_f16(p + 2 * i);
  }
}

void decode_BF16(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *p = blocks;
  size_t i = 0;
  for (; block_count - i >= CHUNK; i += CHUNK) {
    for (size_t j = 0; j < CHUNK; j++) {
      ret_values[i + j] = quant_bf16_to_f32(read_u16(p + 2 * (i + j)));
    }
  }
  for (; i < block_count; i++) {
    ret_values[i] = quant_bf16_to_f32(read_u16(p + 2 * i));
  }
}

/* E4M3FN: bias 7, no infinity, 0x7f and 0xff are NaN (OCP 8-bit floating point specification). */
static inline float decode_e4m3(uint8_t code) {
  const uint32_t sign = (uint32_t)(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  const uint32_t subnormal = quant_f32_to_bits((float)(int32_t)magnitude * 0x1p-9f);
  const uint32_t normal = (magnitude << 20) + (120u << 23);
  const uint32_t finite = quant_select(magnitude < 8, subnormal, normal);
  return quant_bits_to_f32(sign | quant_select(magnitude == 0x7fu, 0x7fc00000u, finite));
}

void decode_F8_E4M3(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *p = blocks;
  size_t i = 0;
  for (; block_count - i >= CHUNK; i += CHUNK) {
    for (size_t j = 0; j < CHUNK; j++) {
      ret_values[i + j] = decode_e4m3(p[i + j]);
    }
  }
  for (; i < block_count; i++) {
    ret_values[i] = decode_e4m3(p[i]);
  }
}
