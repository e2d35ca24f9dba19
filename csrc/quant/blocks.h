/* blocks.h – reading little-endian fields of a block at any alignment. Internal to quant/. */
#ifndef QUANT_BLOCKS_H
#define QUANT_BLOCKS_H

#include "quant/half.h"

/* Files are little-endian and so is every processor this library is built for; loads are then plain and vectorise. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "block decoding needs a little-endian processor");

static inline uint16_t read_u16(const uint8_t *p) {
  uint16_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline uint32_t read_u32(const uint8_t *p) {
  uint32_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

/* 2^(e - 128): half the E8M0 value, since the E2M1 table holds doubled values. The two smallest are subnormal. */
static inline float quant_e8m0_half(uint8_t e) { return quant_bits_to_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23); }

static inline float read_f16(const uint8_t *p) { return quant_f16_to_f32(read_u16(p)); }

#endif
