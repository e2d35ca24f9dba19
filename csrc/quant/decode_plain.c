/* decode_plain.c – formats without blocks: F32, F16, BF16, F8_E4M3 (the codes alone; the caller applies block scales). */
#include <string.h>

#include "quant/blocks.h"
#include "quant/decode.h"

void decode_F32(const void *blocks, float *ret_values, size_t block_count) { memcpy(ret_values, blocks, block_count * sizeof(float)); }

void decode_F16(const void *blocks, float *ret_values, size_t block_count) {
  const uint8_t *p = blocks;
  for (size_t i = 0; i < block_count; i++) {
    ret_values[i] = read_f16(p + 2 * i);
  }
}

void decode_BF16(const void *blocks, float *ret_values, size_t block_count) {
  const uint8_t *p = blocks;
  for (size_t i = 0; i < block_count; i++) {
    ret_values[i] = quant_bf16_to_f32(read_u16(p + 2 * i));
  }
}

/* E4M3FN: bias 7, no infinity, 0x7f and 0xff are NaN (OCP 8-bit floating point specification). */
static float decode_e4m3(uint8_t code) {
  const uint32_t sign = (uint32_t)(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7fu) {
    return quant_bits_to_f32(sign | 0x7fc00000u);
  }
  if (magnitude < 8) {
    return quant_bits_to_f32(sign | quant_f32_to_bits((float)magnitude * 0x1p-9f));
  }
  return quant_bits_to_f32(sign | ((magnitude << 20) + (120u << 23)));
}

void decode_F8_E4M3(const void *blocks, float *ret_values, size_t block_count) {
  const uint8_t *p = blocks;
  for (size_t i = 0; i < block_count; i++) {
    ret_values[i] = decode_e4m3(p[i]);
  }
}
