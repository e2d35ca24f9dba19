/*
 * check.h – the whole C test harness: macros that count, print and go on.
 *
 * One test file is one program: `TEST(name) { ... }` bodies, then `int main(void) { RUN(name); return check_done(); }`.
 * A failed check prints `FAIL name file:line: what` and ends that test's verdict, not the program. The last line is
 * `N passed, N failed, N skipped`, counted in tests; the exit status is 1 when any failed or none ran, so an empty program fails.
 * Header-only on purpose: each program has its own counters. Paths in tests are relative to the repository's root (the working directory).
 */
#ifndef SURGE_TEST_CHECK_H
#define SURGE_TEST_CHECK_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
  const char *name;
  unsigned passed, failed, skipped;
  unsigned failures; /* checks failed in the running test */
  bool skip;
} check_state;

enum { CHECK_SHOWN = 20 }; /* failures printed per test; the rest are counted */

static inline bool check_failed_at(const char *file, int line) {
  check_state.failures++;
  if (check_state.failures > CHECK_SHOWN) return false;
  printf("FAIL %s %s:%d: ", check_state.name, file, line);
  return true;
}

#define TEST(name) static void test_##name(void)

#define RUN(name) check_run(#name, test_##name)

static inline void check_run(const char *name, void (*body)(void)) {
  check_state.name = name;
  check_state.failures = 0;
  check_state.skip = false;
  body();
  if (check_state.failures > CHECK_SHOWN) printf("FAIL %s: %u checks failed, %d shown\n", name, check_state.failures, (int)CHECK_SHOWN);
  if (check_state.failures > 0) {
    check_state.failed++;
  } else if (check_state.skip) {
    check_state.skipped++;
  } else {
    check_state.passed++;
    printf("ok %s\n", name);
  }
  fflush(stdout);
}

/* Leaves the test as skipped, with the reason: for what this machine cannot do, never for what the code cannot do. */
#define SKIP(reason) \
  do { \
    printf("skip %s: %s\n", check_state.name, (reason)); \
    check_state.skip = true; \
    return; \
  } while (0)

#define CHECK(condition) \
  do { \
    if (!(condition) && check_failed_at(__FILE__, __LINE__)) printf("%s\n", #condition); \
  } while (0)

/* Leaves the test when the condition fails: for what the rest of the test stands on. */
#define REQUIRE(condition) \
  do { \
    if (!(condition)) { \
      if (check_failed_at(__FILE__, __LINE__)) printf("%s (test left)\n", #condition); \
      return; \
    } \
  } while (0)

/* Integers of any signed type, and unsigned ones up to INT64_MAX. */
#define CHECK_EQ(actual, expected) \
  do { \
    int64_t check_a = (int64_t)(actual), check_e = (int64_t)(expected); \
    if (check_a != check_e && check_failed_at(__FILE__, __LINE__)) \
      printf("%s is %" PRId64 ", not %" PRId64 "\n", #actual, check_a, check_e); \
  } while (0)

#define CHECK_STR(actual, expected) \
  do { \
    const char *check_a = (actual), *check_e = (expected); \
    if (strcmp(check_a, check_e) != 0 && check_failed_at(__FILE__, __LINE__)) printf("%s is \"%s\", not \"%s\"\n", #actual, check_a, check_e); \
  } while (0)

/* |actual - expected| <= tolerance; a NaN on either side fails. */
#define CHECK_NEAR(actual, expected, tolerance) \
  do { \
    double check_a = (double)(actual), check_e = (double)(expected), check_t = (double)(tolerance); \
    if (!(fabs(check_a - check_e) <= check_t) && check_failed_at(__FILE__, __LINE__)) \
      printf("%s is %.9g, not %.9g within %.3g\n", #actual, check_a, check_e, check_t); \
  } while (0)

/* The same bytes; says where they first differ. */
#define CHECK_BYTES(actual, expected, bytes) \
  do { \
    const unsigned char *check_a = (const void *)(actual), *check_e = (const void *)(expected); \
    size_t check_n = (bytes), check_i = 0; \
    while (check_i < check_n && check_a[check_i] == check_e[check_i]) check_i++; \
    if (check_i < check_n && check_failed_at(__FILE__, __LINE__)) \
      printf("%s: byte %zu is 0x%02x, not 0x%02x\n", #actual, check_i, check_a[check_i], check_e[check_i]); \
  } while (0)

static inline int check_done(void) {
  printf("%u passed, %u failed, %u skipped\n", check_state.passed, check_state.failed, check_state.skipped);
  return check_state.failed > 0 || check_state.passed + check_state.skipped == 0 ? 1 : 0;
}

#endif
