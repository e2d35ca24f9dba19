/* smaps_test.c – the sums are the kernel's for our ranges and nothing else's; text that is not smaps is said to be so. */
#include "os/smaps.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static char path[] = "/tmp/surge-smaps-test-XXXXXX";
static surge_error err;

static int32_t sum_text(const char *text, const smaps_range *ranges, uint32_t count, uint64_t (*ret_sums)[SURGE_PAGE_COUNT]) {
  FILE *out = fopen(path, "wb");
  fputs(text, out);
  fclose(out);
  err = (surge_error){.struct_size = sizeof err};
  return smaps_sum(path, ranges, count, ret_sums, &err);
}

/* Three mappings: a stranger's, one that the kernel joined with its neighbour, one of the other group behind a very long path. */
TEST(only_our_ranges_count) {
  static char text[8192];
  char name[5000];
  uint64_t sums[2][SURGE_PAGE_COUNT] = {{0}};
  const smaps_range ranges[] = {{0x20000, 0x8000, 0}, {0x7ffff0000000, 0x200000, 1}};
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  snprintf(text, sizeof text,
           "00010000-00020000 rw-p 00000000 00:00 0 \nRss:  64 kB\nLocked:  64 kB\n"
           "00020000-00040000 rw-p 00000000 00:00 0 [heap]\nSize: 128 kB\nRss:  64 kB\nAnonHugePages: 8 kB\nLocked:  0 kB\nVmFlags: rd wr\n"
           "7ffff0000000-7ffff0200000 r--s 00000000 08:01 42 /%s\nRss:  2048 kB\nFilePmdMapped:  2048 kB\nRssX: 1 kB\nLocked: 1024 kB\n",
           name);
  REQUIRE(sum_text(text, ranges, 2, sums) == SURGE_OK);
  const uint64_t expected[2][SURGE_PAGE_COUNT] = {{0x8000, 0x8000, 8192, 0, 0}, {0x200000, 0x200000, 0, 0x200000, 0x100000}};
  CHECK_BYTES(sums, expected, sizeof expected);
}

TEST(damaged_text) {
  static const char *const texts[] = {"", "\n\n", "Rss: 5 kB\n", "zz-yy rw-p\nRss: 1 kB", "no newline at all"};
  const smaps_range range = {0, UINT64_MAX, 0};
  uint64_t sums[1][SURGE_PAGE_COUNT] = {{0}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    CHECK_EQ(sum_text(texts[i], &range, 1, sums), SURGE_E_IO);
    CHECK(strstr(err.message, "cannot be read: it lists no mapping") != NULL);
  }
  CHECK_EQ(smaps_sum("/no/smaps", &range, 1, sums, &err), SURGE_E_IO);
  CHECK_STR(err.message, "/no/smaps cannot be opened: No such file or directory");
  CHECK_EQ(sum_text("0-1000 rw-p\nRss: -1 kB\nLocked: 99999999999999999999 kB\n", &range, 1, sums), SURGE_OK);
  CHECK(sums[0][SURGE_PAGE_RESIDENT] <= 4096 && sums[0][SURGE_PAGE_LOCKED] <= 4096);
}

TEST(pages_of_this_process) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint8_t *base = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(base != MAP_FAILED);
  mprotect(base, page, PROT_NONE); /* so that no neighbour joins it */
  mprotect(base + 63 * page, page, PROT_NONE);
  madvise(base, 64 * page, MADV_NOHUGEPAGE);
  for (uint64_t i = 1; i <= 10; i++) {
    base[i * page] = 1;
  }
  const smaps_range range = {(uint64_t)(uintptr_t)base + page, 62 * page, 0};
  uint64_t sums[1][SURGE_PAGE_COUNT] = {{0}};
  REQUIRE(smaps_sum("/proc/self/smaps", &range, 1, sums, NULL) == SURGE_OK);
  CHECK_EQ(sums[0][SURGE_PAGE_MAPPED], 62 * page);
  CHECK_EQ(sums[0][SURGE_PAGE_RESIDENT], 10 * page);
  CHECK_EQ(sums[0][SURGE_PAGE_ANON_HUGE], 0);
  munmap(base, 64 * page);
}

int main(void) {
  close(mkstemp(path));
  RUN(only_our_ranges_count);
  RUN(damaged_text);
  RUN(pages_of_this_process);
  unlink(path);
  return check_done();
}
