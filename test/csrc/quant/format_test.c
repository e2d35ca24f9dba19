/*
 * format_test.c – every storage format decodes the golden blocks to the last bit, at every alignment, and touches no byte outside its blocks and values.
 * Breaks when: an operation order, a bit position, a code book, a block size or a sign of zero is wrong; when a wide load or store passes the end.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "quant/format.h"
#include "quant/half.h"
#include "quant/tables.h"

/* GGML's ids, written down a second time on purpose: files carry them. */
static const struct {
  uint32_t dtype;
  const char *name;
} GOLDEN[] = {
    {1, "F16"},      {2, "Q4_0"},     {3, "Q4_1"},    {6, "Q5_0"},   {7, "Q5_1"},    {8, "Q8_0"},   {10, "Q2_K"},  {11, "Q3_K"},  {12, "Q4_K"},
    {13, "Q5_K"},    {14, "Q6_K"},    {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},
    {23, "IQ4_XS"},  {29, "IQ1_M"},   {30, "BF16"},   {34, "TQ1_0"}, {35, "TQ2_0"},  {39, "MXFP4"}, {40, "NVFP4"},
};

enum { GOLDEN_COUNT = sizeof GOLDEN / sizeof GOLDEN[0], FILE_BYTES = 1 << 20 };

/* Bytes of a golden file, to be freed; NULL when it is missing or longer than any golden file is. */
static void *read_whole(const char *name, const char *suffix, size_t *ret_bytes) {
  char path[256];
  snprintf(path, sizeof path, "test/golden/blocks/%s.%s", name, suffix);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return NULL;
  }
  uint8_t *data = malloc(FILE_BYTES);
  *ret_bytes = data == NULL ? FILE_BYTES : fread(data, 1, FILE_BYTES, file);
  fclose(file);
  if (*ret_bytes == FILE_BYTES) {
    free(data);
    return NULL;
  }
  return data;
}

/* Equal bits, or both NaN. Takes bytes, since values may lie at any address. Says which value differs first. */
static void check_values(const quant_format *f, const void *actual, const void *expected, size_t count, const char *what) {
  for (size_t i = 0; i < count; i++) {
    float a;
    float e;
    memcpy(&a, (const uint8_t *)actual + i * sizeof a, sizeof a);
    memcpy(&e, (const uint8_t *)expected + i * sizeof e, sizeof e);
    const uint32_t a_bits = quant_f32_to_bits(a);
    const uint32_t e_bits = quant_f32_to_bits(e);
    if (a_bits == e_bits || (isnan(a) && isnan(e))) {
      continue;
    }
    if (check_failed_at(__FILE__, __LINE__)) {
      printf("%s, %s: value %zu of block %zu is 0x%08x, not 0x%08x\n", f->name, what, i % f->block_elements, i / f->block_elements, a_bits, e_bits);
    }
    return;
  }
}

typedef struct golden {
  const quant_format *format;
  uint8_t *blocks;
  float *values;
  size_t block_count;
} golden;

/* false: files missing or of another size than the format's (the check has failed then). */
static bool golden_read(size_t index, bool finite, golden *ret) {
  const quant_format *f = quant_format_find(GOLDEN[index].dtype);
  size_t block_bytes = 0;
  size_t value_bytes = 0;
  *ret = (golden){.format = f};
  CHECK(f != NULL);
  if (f == NULL) {
    return false;
  }
  CHECK_STR(f->name, GOLDEN[index].name);
  ret->blocks = read_whole(f->name, finite ? "blocks.bin" : "nonfinite.blocks.bin", &block_bytes);
  ret->values = read_whole(f->name, finite ? "values.f32" : "nonfinite.values.f32", &value_bytes);
  ret->block_count = block_bytes / f->block_bytes;
  const bool sound = ret->blocks != NULL && ret->values != NULL && ret->block_count > 0 && block_bytes % f->block_bytes == 0 &&
                     value_bytes == ret->block_count * f->block_elements * sizeof(float);
  if (!sound && check_failed_at(__FILE__, __LINE__)) {
    printf("%s: golden files missing, or not of the format's block size\n", f->name);
  }
  return sound;
}

static void golden_free(golden *g) {
  free(g->blocks);
  free(g->values);
}

TEST(golden_blocks_bit_for_bit) {
  for (size_t i = 0; i < 2 * (size_t)GOLDEN_COUNT; i++) {
    golden g;
    if (golden_read(i / 2, i % 2 == 0, &g)) {
      float *decoded = malloc(g.block_count * g.format->block_elements * sizeof(float));
      REQUIRE(decoded != NULL);
      g.format->decode(g.blocks, decoded, g.block_count);
      check_values(g.format, decoded, g.values, g.block_count * g.format->block_elements, i % 2 == 0 ? "finite" : "not finite");
      free(decoded);
    }
    golden_free(&g);
  }
}

/* A float32 tensor is copied, so even the payload of a NaN survives; every other format is in the golden list. */
TEST(f32_is_copied) {
  const uint32_t bits[] = {0x00000000, 0x80000000, 0x00000001, 0x3f800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f812345, 0xffc54321};
  uint8_t misaligned[1 + sizeof bits];
  float decoded[sizeof bits / sizeof bits[0]];
  memcpy(misaligned + 1, bits, sizeof bits);
  const quant_format *f = quant_format_find(QUANT_F32);
  REQUIRE(f != NULL && f->dtype == 0 && f->block_bytes == 4 && f->block_elements == 1);
  f->decode(misaligned + 1, decoded, sizeof bits / sizeof bits[0]);
  CHECK_BYTES(decoded, bits, sizeof bits);
}

/* Usable bytes between two pages that fault on any access. */
typedef struct guarded {
  uint8_t *mapping, *start, *end;
  size_t mapped_bytes;
} guarded;

static bool guarded_map(size_t bytes, guarded *ret) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t usable = (bytes + page - 1) / page * page;
  ret->mapped_bytes = usable + 2 * page;
  ret->mapping = mmap(NULL, ret->mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ret->mapping == MAP_FAILED) {
    return false;
  }
  ret->start = ret->mapping + page;
  ret->end = ret->start + usable;
  return mprotect(ret->start, usable, PROT_READ | PROT_WRITE) == 0;
}

enum { RUN_BLOCKS = 37 }; /* covers whole chunks of the plain formats, and every tail */

/* Decodes the last `count` golden blocks from `at` to the values that end at `out_end`. */
static void check_decode(const golden *g, size_t count, uint8_t *at, uint8_t *out_end, const char *what) {
  const quant_format *f = g->format;
  const size_t first = g->block_count - count;
  const size_t values = count * f->block_elements;
  float *out = (float *)(void *)(out_end - values * sizeof(float));
  memcpy(at, g->blocks + first * f->block_bytes, count * f->block_bytes);
  memset(out, 0x5a, values * sizeof(float));
  f->decode(at, out, count);
  check_values(f, out, g->values + first * f->block_elements, values, what);
}

TEST(touches_nothing_outside_blocks_and_values) {
  guarded in;
  guarded out;
  REQUIRE(guarded_map(RUN_BLOCKS * 210, &in) && guarded_map(RUN_BLOCKS * 256 * sizeof(float), &out));
  for (size_t i = 0; i < GOLDEN_COUNT; i++) {
    golden g;
    if (golden_read(i, true, &g)) {
      for (size_t count = 1; count <= RUN_BLOCKS && count <= g.block_count; count++) {
        const size_t value_bytes = count * g.format->block_elements * sizeof(float);
        check_decode(&g, count, in.end - count * g.format->block_bytes, out.end, "up to the last byte of a page");
        check_decode(&g, count, in.start, out.start + value_bytes, "from the first byte of a page");
      }
      g.format->decode(in.end, (float *)(void *)out.end, 0); /* no blocks: nothing may be touched */
    }
    golden_free(&g);
  }
  munmap(in.mapping, in.mapped_bytes);
  munmap(out.mapping, out.mapped_bytes);
}

TEST(any_alignment_of_blocks_and_values) {
  _Alignas(64) static uint8_t in[RUN_BLOCKS * 210 + 64];
  _Alignas(64) static float out[RUN_BLOCKS * 256 + 16];
  for (size_t i = 0; i < GOLDEN_COUNT; i++) {
    golden g;
    if (golden_read(i, true, &g)) {
      const size_t count = g.block_count < RUN_BLOCKS ? g.block_count : RUN_BLOCKS;
      for (size_t offset = 0; offset < 32; offset++) {
        uint8_t *out_end = (uint8_t *)(out + offset % 16 + count * g.format->block_elements);
        check_decode(&g, count, in + offset, out_end, "misaligned");
      }
    }
    golden_free(&g);
  }
}

TEST(e4m3_codes) {
  size_t bytes = 0;
  float *values = read_whole("e4m3fn", "f32", &bytes);
  REQUIRE(values != NULL && bytes == 256 * sizeof(float));
  const quant_format *f = quant_format_find(QUANT_F8_E4M3);
  REQUIRE(f != NULL && f->dtype == 256 && f->block_bytes == 1 && f->block_elements == 1);
  guarded in;
  guarded out;
  REQUIRE(guarded_map(256, &in) && guarded_map(256 * sizeof(float), &out));
  for (size_t count = 0; count <= 256; count++) { /* the last codes, so that chunks and tails meet every code */
    uint8_t *at = in.end - count;
    float *decoded = (float *)(void *)(out.end - count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
      at[i] = (uint8_t)(256 - count + i);
    }
    f->decode(at, decoded, count);
    check_values(f, decoded, values + 256 - count, count, "codes");
  }
  munmap(in.mapping, in.mapped_bytes);
  munmap(out.mapping, out.mapped_bytes);
  free(values);
}

TEST(code_books_are_the_golden_ones) {
  const struct {
    const char *name;
    const void *table;
    size_t bytes;
  } BOOKS[] = {
      {"grid_iq1s", TABLE_IQ1_S, sizeof TABLE_IQ1_S},       {"grid_iq2xxs", TABLE_IQ2_XXS, sizeof TABLE_IQ2_XXS},
      {"grid_iq2xs", TABLE_IQ2_XS, sizeof TABLE_IQ2_XS},    {"grid_iq2s", TABLE_IQ2_S, sizeof TABLE_IQ2_S},
      {"grid_iq3xxs", TABLE_IQ3_XXS, sizeof TABLE_IQ3_XXS}, {"grid_iq3s", TABLE_IQ3_S, sizeof TABLE_IQ3_S},
  };
  for (size_t i = 0; i < sizeof BOOKS / sizeof BOOKS[0]; i++) { /* the golden blocks do not reach every row */
    size_t bytes = 0;
    void *rows = read_whole(BOOKS[i].name, "i8", &bytes);
    REQUIRE(rows != NULL);
    CHECK_EQ(bytes, BOOKS[i].bytes);
    CHECK_BYTES(BOOKS[i].table, rows, BOOKS[i].bytes);
    free(rows);
  }
}

TEST(every_format_is_found_by_its_own_id) {
  const uint32_t unknown[] = {4, 5, 9, 15, 24, 28, 31, 36, 38, 41, 255, 257, UINT32_MAX};
  size_t found = 0;
  for (uint32_t id = 0; id <= 256; id++) {
    const quant_format *f = quant_format_find(id);
    if (f != NULL) {
      CHECK_EQ(f->dtype, id);
      CHECK(f->decode != NULL);
      found++;
    }
  }
  CHECK_EQ(found, GOLDEN_COUNT + 2); /* F32 and F8_E4M3 have no golden blocks */
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    CHECK(quant_format_find(unknown[i]) == NULL);
  }
}

int main(void) {
  RUN(golden_blocks_bit_for_bit);
  RUN(f32_is_copied);
  RUN(touches_nothing_outside_blocks_and_values);
  RUN(any_alignment_of_blocks_and_values);
  RUN(e4m3_codes);
  RUN(code_books_are_the_golden_ones);
  RUN(every_format_is_found_by_its_own_id);
  return check_done();
}
