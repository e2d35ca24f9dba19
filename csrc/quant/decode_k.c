/* decode_k.c – super-blocks of 256 with sub-block scales: Q2_K … Q6_K, IQ4_XS, and the ternary TQ1_0, TQ2_0. */
#include "quant/blocks.h"
#include "quant/decode.h"
#include "quant/tables.h"

void decode_Q2_K(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 84, ret_values += 256) {
    const float d = read_f16(b + 80);
    const float dmin = read_f16(b + 82);
    for (int sub = 0; sub < 16; sub++) {
      const uint8_t *q = b + 16 + 32 * (sub / 8) + 16 * (sub % 2);
      const int shift = sub % 8 / 2 * 2;
      const float scale = d * (float)(b[sub] & 15);
      const float minimum = dmin * (float)(b[sub] >> 4);
      for (int j = 0; j < 16; j++) {
        ret_values[16 * sub + j] = scale * (float)(q[j] >> shift & 3) - minimum;
      }
    }
  }
}

static int q3_scale(const uint8_t *scales, int sub) {
  const int low = sub < 8 ? scales[sub] & 15 : scales[sub - 8] >> 4;
  const int high = scales[8 + sub % 4] >> (2 * (sub / 4)) & 3;
  return (low | high << 4) - 32;
}

void decode_Q3_K(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 110, ret_values += 256) {
    const float d = read_f16(b + 108);
    for (int sub = 0; sub < 16; sub++) {
      const uint8_t *high = b + 16 * (sub % 2);
      const uint8_t *q = b + 32 + 32 * (sub / 8) + 16 * (sub % 2);
      const int shift = sub % 8 / 2 * 2;
      const float scale = d * (float)q3_scale(b + 96, sub);
      for (int j = 0; j < 16; j++) {
        ret_values[16 * sub + j] = scale * (float)((q[j] >> shift & 3) - ((high[j] >> (sub / 2) & 1) ? 0 : 4));
      }
    }
  }
}

static void k_scale_min(const uint8_t *scales, int sub, int *ret_scale, int *ret_min) {
  if (sub < 4) {
    *ret_scale = scales[sub] & 63;
    *ret_min = scales[sub + 4] & 63;
  } else {
    *ret_scale = (scales[sub + 4] & 15) | (scales[sub - 4] >> 6) << 4;
    *ret_min = (scales[sub + 4] >> 4) | (scales[sub] >> 6) << 4;
  }
}

void decode_Q4_K(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 144, ret_values += 256) {
    const float d = read_f16(b);
    const float dmin = read_f16(b + 2);
    for (int sub = 0; sub < 8; sub++) {
      const uint8_t *q = b + 16 + 32 * (sub / 2);
      const int shift = 4 * (sub % 2);
      int scale = 0;
      int minimum = 0;
      k_scale_min(b + 4, sub, &scale, &minimum);
      const float s = d * (float)scale;
      const float m = dmin * (float)minimum;
      for (int j = 0; j < 32; j++) {
        ret_values[32 * sub + j] = s * (float)(q[j] >> shift & 15) - m;
      }
    }
  }
}

void decode_Q5_K(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 176, ret_values += 256) {
    const float d = read_f16(b);
    const float dmin = read_f16(b + 2);
    for (int sub = 0; sub < 8; sub++) {
      const uint8_t *q = b + 48 + 32 * (sub / 2);
      const int shift = 4 * (sub % 2);
      int scale = 0;
      int minimum = 0;
      k_scale_min(b + 4, sub, &scale, &minimum);
      const float s = d * (float)scale;
      const float m = dmin * (float)minimum;
      for (int j = 0; j < 32; j++) {
        ret_values[32 * sub + j] = s * (float)((q[j] >> shift & 15) | (b[16 + j] >> sub & 1) << 4) - m;
      }
    }
  }
}

void decode_Q6_K(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 210, ret_values += 256) {
    const float d = read_f16(b + 208);
    for (int sub = 0; sub < 16; sub++) { /* 16 elements each; eight to a half, two to a run of 32 with the same shifts */
      const int run = sub % 8 / 2;
      const uint8_t *low = b + 64 * (sub / 8) + 32 * (run % 2) + 16 * (sub % 2);
      const uint8_t *high = b + 128 + 32 * (sub / 8) + 16 * (sub % 2);
      const int low_shift = 4 * (run / 2);
      const int high_shift = 2 * run;
      const float s = d * (float)(int8_t)b[192 + sub];
      for (int j = 0; j < 16; j++) {
        ret_values[16 * sub + j] = s * (float)(((low[j] >> low_shift & 15) | (high[j] >> high_shift & 3) << 4) - 32);
      }
    }
  }
}

void decode_IQ4_XS(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 136, ret_values += 256) {
    const float d = read_f16(b);
    const uint16_t high = read_u16(b + 2);
    for (int sub = 0; sub < 8; sub++) {
      const int scale = (b[4 + sub / 2] >> (4 * (sub % 2)) & 15) | (high >> (2 * sub) & 3) << 4;
      const float s = d * (float)(scale - 32);
      const uint8_t *q = b + 8 + 16 * sub;
      for (int j = 0; j < 16; j++) {
        ret_values[32 * sub + j] = s * (float)TABLE_IQ4_NL[q[j] & 15];
        ret_values[32 * sub + 16 + j] = s * (float)TABLE_IQ4_NL[q[j] >> 4];
      }
    }
  }
}

/* Digit n of a byte that holds five base-3 digits as a fraction of 256, minus 1. */
static float ternary_digit(uint8_t byte, int n) {
  static const uint8_t POWERS[] = {1, 3, 9, 27, 81};
  const uint8_t shifted = (uint8_t)(byte * POWERS[n]);
  return (float)((shifted * 3 >> 8) - 1);
}

static float *ternary_run(const uint8_t *bytes, int count, int digits, float d, float *ret) {
  for (int n = 0; n < digits; n++) {
    for (int j = 0; j < count; j++) {
      *ret++ = d * ternary_digit(bytes[j], n);
    }
  }
  return ret;
}

void decode_TQ1_0(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 54) {
    const float d = read_f16(b + 52);
    ret_values = ternary_run(b, 32, 5, d, ret_values);
    ret_values = ternary_run(b + 32, 16, 5, d, ret_values);
    ret_values = ternary_run(b + 48, 4, 4, d, ret_values);
  }
}

void decode_TQ2_0(const void *restrict blocks, float *restrict ret_values, size_t block_count) {
  const uint8_t *b = blocks;
  for (size_t i = 0; i < block_count; i++, b += 66, ret_values += 256) {
    const float d = read_f16(b + 64);
    for (int part = 0; part < 8; part++) {
      for (int j = 0; j < 32; j++) {
        ret_values[32 * part + j] = d * (float)((b[32 * (part / 4) + j] >> (2 * (part % 4)) & 3) - 1);
      }
    }
  }
}
