/* smaps.c – see smaps.h. A mapping is a line "from-to …" with hexadecimal addresses, then lines "Name:  N kB". */
#include "os/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* Of a line only the beginning matters; of the file, more than the kernel's most mappings take. */
enum { LINE = 96, MOST_BYTES = 256 << 20 };

typedef struct reader {
  const smaps_range *ranges;
  uint32_t count;
  uint64_t (*sums)[SURGE_PAGE_COUNT];
  uint32_t group;
  uint64_t overlap; /* of the current mapping with the ranges; 0: none of ours */
  uint32_t mappings;
} reader;

static const struct {
  const char *name;
  surge_page page;
} KEYS[] = {
    {"Rss:", SURGE_PAGE_RESIDENT},          {"AnonHugePages:", SURGE_PAGE_ANON_HUGE}, {"FilePmdMapped:", SURGE_PAGE_FILE_HUGE},
    {"ShmemPmdMapped:", SURGE_PAGE_FILE_HUGE}, {"Locked:", SURGE_PAGE_LOCKED},
};

static void begin_mapping(reader *r, uint64_t from, uint64_t to) {
  r->mappings++;
  r->overlap = 0;
  for (uint32_t i = 0; i < r->count; i++) {
    const uint64_t end = r->ranges[i].start + r->ranges[i].bytes;
    const uint64_t low = from > r->ranges[i].start ? from : r->ranges[i].start;
    const uint64_t high = to < end ? to : end;
    if (low < high) {
      r->overlap += high - low;
      r->group = r->ranges[i].group;
    }
  }
  if (r->overlap > 0) {
    r->sums[r->group][SURGE_PAGE_MAPPED] += r->overlap;
  }
}

static void take_line(reader *r, const char *line) {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t kib = 0;
  char name[32];
  if (sscanf(line, "%16" SCNx64 "-%16" SCNx64 " ", &from, &to) == 2) {
    begin_mapping(r, from, to);
    return;
  }
  if (r->overlap == 0 || sscanf(line, "%31s %12" SCNu64 " kB", name, &kib) != 2) {
    return;
  }
  for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
    if (strcmp(name, KEYS[i].name) == 0) {
      r->sums[r->group][KEYS[i].page] += kib * 1024 < r->overlap ? kib * 1024 : r->overlap;
    }
  }
}

static void take_bytes(reader *r, const char *bytes, size_t count, char *line, size_t *used) {
  for (size_t i = 0; i < count; i++) {
    if (bytes[i] == '\n') {
      line[*used] = '\0';
      take_line(r, line);
      *used = 0;
    } else if (*used < LINE - 1) {
      line[(*used)++] = bytes[i];
    }
  }
}

int32_t smaps_sum(const char *path, const smaps_range *ranges, uint32_t count, uint64_t (*ret_sums)[SURGE_PAGE_COUNT], surge_error *err) {
  reader r = {.ranges = ranges, .count = count, .sums = ret_sums};
  char bytes[4096];
  char line[LINE];
  size_t used = 0;
  ssize_t got = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return error_set(err, SURGE_E_IO, "%s cannot be opened: %s", path, strerror(errno));
  }
  for (uint64_t total = 0; total < MOST_BYTES; total += (uint64_t)got) {
    do {
      got = read(fd, bytes, sizeof bytes);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
      break;
    }
    take_bytes(&r, bytes, (size_t)got, line, &used);
  }
  const int failed = got < 0;
  const int why = errno;
  close(fd);
  if (failed || r.mappings == 0) {
    return error_set(err, SURGE_E_IO, "%s cannot be read: %s", path, failed ? strerror(why) : "it lists no mapping");
  }
  return SURGE_OK;
}
