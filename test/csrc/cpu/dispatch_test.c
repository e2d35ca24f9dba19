/*
 * dispatch_test.c – which kernels are chosen, and which may be asked for.
 * Breaks when: a processor gets kernels that it does not run, the fastest are not the default, or a name that cannot be is not refused.
 * What it prints is read by scripts/emulated.sh, which knows what the emulated processors must say.
 */
#include <stdlib.h>

#include "check.h"
#include "cpu/dispatch.h"
#include "surge.h"

static const char *const NAMES[] = {"ref", "avx2", "avx512vnni", "amx_int8", "neon", "neon_dotprod", "neon_i8mm", "avx3"};
enum { NAME_COUNT = sizeof NAMES / sizeof NAMES[0] };

static int runs_here(const char *name) {
  for (uint32_t i = 0; cpu_dispatch_at(i) != NULL; i++) {
    if (strcmp(cpu_dispatch_at(i)->name, name) == 0) {
      return 1;
    }
  }
  return 0;
}

TEST(the_fastest_is_the_default) {
  const cpu_kernels *last = NULL;
  surge_cpu_info info = {.struct_size = sizeof info};
  for (uint32_t i = 0; cpu_dispatch_at(i) != NULL; i++) {
    last = cpu_dispatch_at(i);
  }
  REQUIRE(last != NULL);
  for (uint32_t empty = 0; empty < 2; empty++) { /* SURGE_ISA= is like none */
    CHECK_EQ(empty ? setenv("SURGE_ISA", "", 1) : unsetenv("SURGE_ISA"), 0);
    CHECK_EQ(surge_cpu(&info, NULL), SURGE_OK);
    CHECK_EQ(info.name_bytes, strlen(last->name));
    CHECK_BYTES(info.name, last->name, strlen(last->name));
  }
  printf("kernels of %s are chosen\n", last->name);
}

TEST(what_runs_may_be_asked_for_and_nothing_else) {
  for (uint32_t i = 0; i < NAME_COUNT; i++) {
    surge_error err = {.struct_size = sizeof err};
    surge_cpu_info info = {.struct_size = sizeof info};
    CHECK_EQ(setenv("SURGE_ISA", NAMES[i], 1), 0);
    const int32_t status = surge_cpu(&info, &err);
    if (runs_here(NAMES[i])) {
      CHECK_EQ(status, SURGE_OK);
      CHECK_BYTES(info.name, NAMES[i], strlen(NAMES[i]));
      continue;
    }
    char sentence[128];
    snprintf(sentence, sizeof sentence, "SURGE_ISA is \"%s\", which is unknown or not possible on this processor", NAMES[i]);
    CHECK_EQ(status, SURGE_E_DEVICE);
    CHECK_STR(err.message, sentence);
    printf("%s\n", err.message);
  }
  CHECK(!runs_here("avx3"));
  CHECK(runs_here("ref"));
  CHECK_EQ(unsetenv("SURGE_ISA"), 0);
}

int main(void) {
  RUN(the_fastest_is_the_default);
  RUN(what_runs_may_be_asked_for_and_nothing_else);
  return check_done();
}
