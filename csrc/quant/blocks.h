/* blocks.h – reading little-endian fields of a block at any alignment. Internal to quant/. */
#ifndef QUANT_BLOCKS_H
#define QUANT_BLOCKS_H

#include "quant/half.h"

static inline uint16_t read_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static inline uint32_t read_u32(const uint8_t *p) { return (uint32_t)read_u16(p) | (uint32_t)read_u16(p + 2) << 16; }

static inline float read_f16(const uint8_t *p) { return quant_f16_to_f32(read_u16(p)); }

#endif
