/* decode_small.c – formats with blocks of 32 or 64: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4 NVFP4. */
#include "quant/blocks.h"
#include "quant/decode.h"
#include "quant/tables.h"

void decode_Q4_0(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 18, ret_values += 32) {
    const float d = read_f16(b);
    for (int j = 0; j < 16; j++) {
      ret_values[j] = d * (float)((b[2 + j] & 15) - 8);
      ret_values[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
  }
}

void decode_Q4_1(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 20, ret_values += 32) {
    const float d = read_f16(b);
    const float m = read_f16(b + 2);
    for (int j = 0; j < 16; j++) {
      ret_values[j] = d * (float)(b[4 + j] & 15) + m;
      ret_values[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
  }
}

static int fifth_bit(uint32_t high, int element) { return (int)((high >> element & 1u) << 4); }

void decode_Q5_0(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 22, ret_values += 32) {
    const float d = read_f16(b);
    const uint32_t high = read_u32(b + 2);
    for (int j = 0; j < 16; j++) {
      ret_values[j] = d * (float)(((b[6 + j] & 15) | fifth_bit(high, j)) - 16);
      ret_values[j + 16] = d * (float)(((b[6 + j] >> 4) | fifth_bit(high, j + 16)) - 16);
    }
  }
}

void decode_Q5_1(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 24, ret_values += 32) {
    const float d = read_f16(b);
    const float m = read_f16(b + 2);
    const uint32_t high = read_u32(b + 4);
    for (int j = 0; j < 16; j++) {
      ret_values[j] = d * (float)((b[8 + j] & 15) | fifth_bit(high, j)) + m;
      ret_values[j + 16] = d * (float)((b[8 + j] >> 4) | fifth_bit(high, j + 16)) + m;
    }
  }
}

void decode_Q8_0(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 34, ret_values += 32) {
    const float d = read_f16(b);
    for (int j = 0; j < 32; j++) {
      ret_values[j] = d * (float)(int8_t)b[2 + j];
    }
  }
}

void decode_IQ4_NL(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 18, ret_values += 32) {
    const float d = read_f16(b);
    for (int j = 0; j < 16; j++) {
      ret_values[j] = d * (float)TABLE_IQ4_NL[b[2 + j] & 15];
      ret_values[j + 16] = d * (float)TABLE_IQ4_NL[b[2 + j] >> 4];
    }
  }
}

void decode_MXFP4(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 17, ret_values += 32) {
    const float d = quant_e8m0_half(b[0]);
    for (int j = 0; j < 16; j++) {
      ret_values[j] = d * (float)TABLE_E2M1_DOUBLED[b[1 + j] & 15];
      ret_values[j + 16] = d * (float)TABLE_E2M1_DOUBLED[b[1 + j] >> 4];
    }
  }
}

/* Half the UE4M3 value; exactly 0x00 and 0x7f mean zero, otherwise bit 7 is ignored (as ggml does). */
static float ue4m3_half(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const float mantissa = (float)(code & 7);
  if (code == 0x00 || code == 0x7f) {
    return 0.0f;
  }
  if (exponent == 0) {
    return mantissa * 0x1p-10f;
  }
  return (1.0f + mantissa / 8.0f) * quant_bits_to_f32((uint32_t)(exponent + 119) << 23);
}

void decode_NVFP4(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 36, ret_values += 64) {
    for (int s = 0; s < 4; s++) {
      const float d = ue4m3_half(b[s]);
      for (int j = 0; j < 8; j++) {
        const uint8_t codes = b[4 + 8 * s + j];
        ret_values[16 * s + j] = d * (float)TABLE_E2M1_DOUBLED[codes & 15];
        ret_values[16 * s + 8 + j] = d * (float)TABLE_E2M1_DOUBLED[codes >> 4];
      }
    }
  }
}
