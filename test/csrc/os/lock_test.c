/* lock_test.c – what may not be locked is refused before anything is, with the limit, the need and the way out. */
#include "os/lock.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "check.h"

enum { LIMIT = 64 << 10, SIZE = 1 << 20, NOBODY = 65534 };

/* In a child without privileges and with a small limit: 0, or the number of the expectation that failed. */
static int limited(void) {
  const struct rlimit limit = {LIMIT, LIMIT};
  surge_error err = {.struct_size = sizeof err};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setuid(NOBODY) != 0)) {
    return 1;
  }
  if (memory_lock_check(SIZE, &err) != SURGE_E_MEMORY) {
    return 2;
  }
  if (strcmp(err.message, "1 MiB must be locked into memory (mlock) and this process may lock 64 KiB (RLIMIT_MEMLOCK): raise the limit with ulimit -l or "
                          "LimitMEMLOCK= in the systemd unit, or leave mlock out") != 0) {
    return 3;
  }
  if (memory_lock_check(LIMIT / 2, &err) != SURGE_OK || memory_lock_check(LIMIT / 2, &err) != SURGE_OK) {
    return 4; /* asking takes nothing */
  }
  void *range = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory_lock(range, SIZE, &err) == SURGE_E_MEMORY && memory_lock(range, LIMIT / 2, &err) == SURGE_OK ? 0 : 5;
}

TEST(a_small_limit_is_named) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(limited());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(other_failures_say_why) {
  surge_error err = {.struct_size = sizeof err};
  fault_arm(1);
  CHECK_EQ(memory_lock_check(4096, &err), SURGE_E_MEMORY);
  CHECK_STR(err.message, "1 MiB cannot be locked into memory (mlock): Cannot allocate memory; free memory, or leave mlock out");
  fault_arm(1);
  CHECK_EQ(memory_lock(&err, 4096, NULL), SURGE_E_MEMORY);
  fault_arm(0);
}

int main(void) {
  RUN(a_small_limit_is_named);
  RUN(other_failures_say_why);
  return check_done();
}
