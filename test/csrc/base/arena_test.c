/* arena_test.c – counting and giving agree to the byte, nothing overlaps, overflow is exhaustion. Breaks when an engine could take more than it measured. */
#include "base/arena.h"
#include "base/fault.h"
#include "check.h"

static const struct {
  uint64_t bytes, align;
} TAKES[] = {{1, 1}, {3, 64}, {64, 64}, {0, 64}, {8, 8}, {5, 1}, {4, 4}, {100, 16}};
enum { TAKE_COUNT = sizeof TAKES / sizeof TAKES[0] };

TEST(counting_equals_giving) {
  arena counted;
  arena given;
  arena_measure(&counted);
  for (int i = 0; i < TAKE_COUNT; i++) {
    CHECK(arena_take(&counted, TAKES[i].bytes, TAKES[i].align) == NULL);
  }
  REQUIRE(arena_open(&given, arena_used(&counted), NULL) == SURGE_OK);
  const uint8_t *end = given.base;
  for (int i = 0; i < TAKE_COUNT; i++) {
    uint8_t *block = arena_take(&given, TAKES[i].bytes, TAKES[i].align);
    REQUIRE(block != NULL);
    CHECK_EQ((uintptr_t)block % TAKES[i].align, 0);
    CHECK(block >= end);
    for (uint64_t b = 0; b < TAKES[i].bytes; b++) {
      CHECK_EQ(block[b], 0);
      block[b] = 0xa5;
    }
    end = block + TAKES[i].bytes;
  }
  CHECK_EQ(arena_used(&given), arena_used(&counted));
  CHECK(!given.exhausted);
  CHECK(arena_take(&given, 1, 1) == NULL);
  CHECK(given.exhausted);
  arena_close(&given);
  CHECK(given.base == NULL);
}

/* Huge pages need the border; the kernel's account of it must not be joined with a neighbour's. */
TEST(an_arena_begins_on_a_huge_page) {
  arena a;
  for (uint64_t bytes = 1; bytes < (uint64_t)1 << 24; bytes *= 7) {
    REQUIRE(arena_open(&a, bytes, NULL) == SURGE_OK);
    CHECK_EQ((uintptr_t)a.base % (2 << 20), 0);
    CHECK(a.base > a.mapping && a.base + bytes < a.mapping + a.mapping_bytes);
    a.base[bytes - 1] = 1;
    arena_close(&a);
  }
  CHECK_EQ(arena_open(&a, UINT64_MAX, NULL), SURGE_E_MEMORY);
}

TEST(sizes_that_wrap_are_exhaustion) {
  arena a;
  arena_measure(&a);
  arena_take(&a, 100, 1);
  arena_take(&a, UINT64_MAX - 50, 1);
  CHECK(a.exhausted);
  CHECK_EQ(arena_used(&a), 100);
  arena_measure(&a);
  arena_take(&a, UINT64_MAX, 1);
  CHECK(!a.exhausted);
  arena_take(&a, 0, 64); /* rounding up wraps */
  CHECK(a.exhausted);
  arena_measure(&a);
  arena_take_array(&a, UINT64_C(1) << 33, UINT64_C(1) << 33, 1); /* 2^66 */
  CHECK(a.exhausted);
  CHECK_EQ(arena_used(&a), 0);
}

TEST(refusals_say_how_much) {
  arena a;
  surge_error err = {.struct_size = sizeof err};
  CHECK_EQ(arena_open(&a, 0, &err), SURGE_E_ARGUMENT);
  CHECK_EQ(arena_open(&a, UINT64_C(1) << 62, &err), SURGE_E_MEMORY);
  CHECK_STR(err.message, "the system refused 4611686018427387904 bytes of memory");
  CHECK(a.base == NULL);
  fault_arm(2);
  REQUIRE(arena_open(&a, 1, NULL) == SURGE_OK);
  arena_close(&a);
  CHECK_EQ(arena_open(&a, 1, NULL), SURGE_E_MEMORY);
  CHECK_EQ(arena_open(&a, 1, NULL), SURGE_OK); /* a fault comes once */
  arena_close(&a);
  arena_close(&a);
}

int main(void) {
  RUN(counting_equals_giving);
  RUN(an_arena_begins_on_a_huge_page);
  RUN(sizes_that_wrap_are_exhaustion);
  RUN(refusals_say_how_much);
  return check_done();
}
