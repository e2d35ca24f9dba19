/* layout_test.c – the listed fields cover each struct without a hole, and the listed enums are whole: none was forgotten in csrc/abi/layout.c. */
#include "abi/layout.h"
#include "check.h"
#include "surge.h"

TEST(fields_cover_their_structs) {
  size_t count = 0;
  const abi_struct *structs = abi_structs(&count);
  CHECK(count == 16);
  for (size_t i = 0; i < count; i++) {
    uint32_t end = 0;
    for (uint32_t f = 0; f < structs[i].field_count; f++) {
      CHECK_EQ(structs[i].fields[f].offset, end);
      end = structs[i].fields[f].offset + structs[i].fields[f].bytes;
    }
    CHECK_EQ(end, structs[i].size);
  }
}

static const abi_enum *find_enum(const char *name) {
  size_t count = 0;
  const abi_enum *enums = abi_enums(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(enums[i].name, name) == 0) {
      return &enums[i];
    }
  }
  return NULL;
}

/* A value that is missing here could be sent by no TypeScript and would be in no hash. */
TEST(enums_are_whole) {
  const struct {
    const char *name;
    uint32_t count;
  } due[] = {{"ROLE", SURGE_ROLE_COUNT}, {"LAYER", SURGE_LAYER_GDN + 1},    {"HEADS", SURGE_HEADS_TILED + 1},          {"ROPE", SURGE_ROPE_YARN + 1},
             {"KV", SURGE_KV_F16 + 1},   {"SCALE", SURGE_SCALE_TENSOR + 1}, {"TRANSFORM", SURGE_TRANSFORM_NEG_EXP + 1}};
  for (size_t i = 0; i < sizeof due / sizeof due[0]; i++) {
    const abi_enum *e = find_enum(due[i].name);
    REQUIRE(e != NULL);
    CHECK_EQ(e->count, due[i].count);
    for (uint32_t value = 0; value < e->count; value++) {
      CHECK_EQ(e->constants[value].value, value);
    }
  }
}

int main(void) {
  RUN(fields_cover_their_structs);
  RUN(enums_are_whole);
  return check_done();
}
