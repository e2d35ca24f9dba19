/*
 * format_test.c – every storage format decodes the golden blocks to the last bit, at any alignment and up to the last byte of a page.
 * Breaks when: an operation order, a bit position, a code book or a sign of zero is wrong.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "check.h"
#include "quant/format.h"
#include "quant/half.h"

static uint8_t *read_whole(const char *name, const char *suffix, size_t *ret_bytes) {
  char path[256];
  snprintf(path, sizeof path, "test/golden/blocks/%s.%s", name, suffix);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return NULL;
  }
  uint8_t *data = malloc(1 << 20);
  *ret_bytes = fread(data, 1, 1 << 20, file);
  fclose(file);
  return data;
}

static int equal_bits(float a, float b) {
  uint32_t x;
  uint32_t y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  return x == y || (isnan(a) && isnan(b));
}

static void compare_blocks(const quant_format *f, const char *blocks_suffix, const char *values_suffix) {
  size_t bytes = 0;
  size_t value_bytes = 0;
  uint8_t *blocks = read_whole(f->name, blocks_suffix, &bytes);
  float *values = (float *)(void *)read_whole(f->name, values_suffix, &value_bytes);
  REQUIRE(blocks != NULL && values != NULL);
  const size_t count = bytes / f->block_bytes;
  CHECK(count > 0);
  CHECK(value_bytes == count * f->block_elements * sizeof(float));
  float *decoded = malloc(value_bytes);
  f->decode(blocks, decoded, count);
  for (size_t i = 0; i < value_bytes / sizeof(float); i++) {
    CHECK(equal_bits(decoded[i], values[i]));
  }
  /* One block at a time, misaligned, ending at a page that must not be read. */
  uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  mprotect(page + 4096, 4096, PROT_NONE);
  for (size_t i = 0; i < count; i++) {
    uint8_t *at = page + 4096 - f->block_bytes;
    memcpy(at, blocks + i * f->block_bytes, f->block_bytes);
    f->decode(at, decoded, 1);
    CHECK(equal_bits(decoded[0], values[i * f->block_elements]));
    CHECK(equal_bits(decoded[f->block_elements - 1], values[(i + 1) * f->block_elements - 1]));
  }
  munmap(page, 8192);
  free(decoded);
  free(values);
  free(blocks);
}

TEST(golden_blocks_bit_for_bit) {
  static const uint32_t TYPES[] = {1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 29, 30, 34, 35, 39, 40};
  for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
    const quant_format *f = quant_format_find(TYPES[i]);
    REQUIRE(f != NULL);
    compare_blocks(f, "blocks.bin", "values.f32");
    compare_blocks(f, "nonfinite.blocks.bin", "nonfinite.values.f32");
  }
}

TEST(e4m3_codes) {
  size_t bytes = 0;
  float *values = (float *)(void *)read_whole("e4m3fn", "f32", &bytes);
  REQUIRE(values != NULL && bytes == 256 * sizeof(float));
  uint8_t codes[256];
  float decoded[256];
  for (int i = 0; i < 256; i++) {
    codes[i] = (uint8_t)i;
  }
  quant_format_find(QUANT_F8_E4M3)->decode(codes, decoded, 256);
  for (int i = 0; i < 256; i++) {
    CHECK(equal_bits(decoded[i], values[i]));
  }
  free(values);
}

TEST(half_round_trip_and_rounding) {
  for (uint32_t h = 0; h < 65536; h++) {
    const float value = quant_f16_to_f32((uint16_t)h);
    if (!isnan(value)) {
      CHECK(quant_f32_to_f16(value) == h);
    }
  }
  for (uint32_t h = 0; h < 0x7bff; h++) { /* halfway between neighbours goes to the even one */
    const float middle = (quant_f16_to_f32((uint16_t)h) + quant_f16_to_f32((uint16_t)(h + 1))) / 2;
    CHECK(quant_f32_to_f16(middle) == (h % 2 == 0 ? h : h + 1));
  }
  CHECK(quant_f32_to_f16(65520.0f) == 0x7c00);
  CHECK(quant_f32_to_f16(65519.0f) == 0x7bff);
}

TEST(unknown_type_is_null) { CHECK(quant_format_find(4) == NULL && quant_format_find(255) == NULL); }

int main(void) {
  RUN(golden_blocks_bit_for_bit);
  RUN(e4m3_codes);
  RUN(half_round_trip_and_rounding);
  RUN(unknown_type_is_null);
  return check_done();
}
