/* amx.c – see probe.h. Tiles as large as they can be: 16 rows by 16 columns of sums over 64 products each. */
#include <immintrin.h>

#include "cpu/kernels/probe/probe.h"

uint32_t probe_int8_amx_int8(uint32_t rounds, int32_t *ret_sum) {
  enum { SUMS = 4, SIDE = 16 };
  static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64}, {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};
  static const int32_t operand[SIDE][SIDE] = {{0x03030303}};
  int32_t sums[SIDE][SIDE];
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, operand, 64);
  _tile_loadd(5, operand, 64);
  for (uint32_t r = 0; r < rounds; r++) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  _tile_release();
  *ret_sum = sums[0][0];
  return SUMS * SIDE * SIDE * 64;
}
