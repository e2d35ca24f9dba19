/* layout_test.c – the listed fields cover each struct without a hole, so none was forgotten in csrc/abi/layout.c. */
#include "abi/layout.h"
#include "check.h"

TEST(fields_cover_their_structs) {
  size_t count = 0;
  const abi_struct *structs = abi_structs(&count);
  CHECK(count == 13);
  for (size_t i = 0; i < count; i++) {
    uint32_t end = 0;
    for (uint32_t f = 0; f < structs[i].field_count; f++) {
      CHECK_EQ(structs[i].fields[f].offset, end);
      end = structs[i].fields[f].offset + structs[i].fields[f].bytes;
    }
    CHECK_EQ(end, structs[i].size);
  }
}

int main(void) {
  RUN(fields_cover_their_structs);
  return check_done();
}
