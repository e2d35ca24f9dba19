/* decode_iq.c – code-book formats of 256: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S. Code books in tables_iq.c. */
#include "quant/blocks.h"
#include "quant/decode.h"
#include "quant/tables.h"

/* A 7-bit sign index holds seven signs; the eighth makes their number even. */
static uint8_t seven_bit_signs(uint32_t index) {
  const uint32_t bits = index & 127u;
  return (uint8_t)(bits | (uint32_t)__builtin_parity(bits) << 7);
}

/* count values of a packed int8 code word, signs from bit `first` on. */
static void put_signed(uint64_t word, uint8_t signs, int first, int count, float scale, float *ret) {
  for (int j = 0; j < count; j++) {
    const float value = scale * (float)(int8_t)(word >> (8 * j) & 255);
    ret[j] = value * (signs >> (first + j) & 1 ? -1.0f : 1.0f);
  }
}

void decode_IQ2_XXS(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 66) {
    const float d = read_f16(b);
    for (int sub = 0; sub < 8; sub++) {
      const uint8_t *codes = b + 2 + 8 * sub;
      const uint32_t bits = read_u32(codes + 4);
      const float scale = d * (0.5f + (float)(bits >> 28)) * 0.25f;
      for (int l = 0; l < 4; l++, ret_values += 8) {
        put_signed(TABLE_IQ2_XXS[codes[l]], seven_bit_signs(bits >> (7 * l)), 0, 8, scale, ret_values);
      }
    }
  }
}

void decode_IQ2_XS(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 74) {
    const float d = read_f16(b);
    for (int group = 0; group < 32; group++, ret_values += 8) {
      const uint16_t code = read_u16(b + 2 + 2 * group);
      const int nibble = b[66 + group / 4] >> (4 * (group / 2 % 2)) & 15;
      const float scale = d * (0.5f + (float)nibble) * 0.25f;
      put_signed(TABLE_IQ2_XS[code & 511], seven_bit_signs(code >> 9), 0, 8, scale, ret_values);
    }
  }
}

void decode_IQ2_S(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 82) {
    const float d = read_f16(b);
    for (int group = 0; group < 32; group++, ret_values += 8) {
      const int high = b[66 + group / 4] << (8 - 2 * (group % 4)) & 0x300;
      const int nibble = b[74 + group / 4] >> (4 * (group / 2 % 2)) & 15;
      const float scale = d * (0.5f + (float)nibble) * 0.25f;
      put_signed(TABLE_IQ2_S[b[2 + group] | high], b[34 + group], 0, 8, scale, ret_values);
    }
  }
}

void decode_IQ3_XXS(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 98) {
    const float d = read_f16(b);
    for (int sub = 0; sub < 8; sub++) {
      const uint32_t bits = read_u32(b + 66 + 4 * sub);
      const float scale = d * (0.5f + (float)(bits >> 28)) * 0.5f;
      for (int l = 0; l < 8; l++, ret_values += 4) {
        put_signed(TABLE_IQ3_XXS[b[2 + 8 * sub + l]], seven_bit_signs(bits >> (7 * (l / 2))), 4 * (l % 2), 4, scale, ret_values);
      }
    }
  }
}

void decode_IQ3_S(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 110) {
    const float d = read_f16(b);
    for (int sub = 0; sub < 8; sub++) {
      const int nibble = b[106 + sub / 2] >> (4 * (sub % 2)) & 15;
      const float scale = d * (float)(1 + 2 * nibble);
      for (int l = 0; l < 8; l++, ret_values += 4) {
        const int index = b[2 + 8 * sub + l] | (b[66 + sub] >> l & 1) << 8;
        put_signed(TABLE_IQ3_S[index], b[74 + 4 * sub + l / 2], 4 * (l % 2), 4, scale, ret_values);
      }
    }
  }
}

static void put_shifted(uint64_t word, float scale, float delta, float *ret) {
  for (int j = 0; j < 8; j++) {
    ret[j] = scale * ((float)(int8_t)(word >> (8 * j) & 255) + delta);
  }
}

void decode_IQ1_S(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 50) {
    const float d = read_f16(b);
    for (int sub = 0; sub < 8; sub++) {
      const uint16_t high = read_u16(b + 34 + 2 * sub);
      const float scale = d * (float)(2 * (high >> 12 & 7) + 1);
      const float delta = high & 0x8000 ? -0.125f : 0.125f;
      for (int l = 0; l < 4; l++, ret_values += 8) {
        put_shifted(TABLE_IQ1_S[b[2 + 4 * sub + l] | (high >> (3 * l) & 7) << 8], scale, delta, ret_values);
      }
    }
  }
}

void decode_IQ1_M(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 56) {
    uint32_t d_bits = 0;
    for (int n = 0; n < 4; n++) {
      d_bits |= (uint32_t)(read_u16(b + 48 + 2 * n) >> 12) << (4 * n);
    }
    const float d = quant_f16_to_f32((uint16_t)d_bits);
    for (int k = 0; k < 32; k++, ret_values += 8) {
      const int pair = k / 2;
      const int sub_scale = read_u16(b + 48 + 2 * (pair / 4)) >> (3 * (pair % 4)) & 7;
      const int high = b[32 + pair] >> (4 * (k % 2)) & 15;
      put_shifted(TABLE_IQ1_S[b[k] | (high & 7) << 8], d * (float)(2 * sub_scale + 1), high & 8 ? -0.125f : 0.125f, ret_values);
    }
  }
}
