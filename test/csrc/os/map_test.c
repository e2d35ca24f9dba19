/* map_test.c – only the very file the manifest saw is mapped; each way in which it is not that file has its status. */
#include "os/map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "check.h"

static char folder[64];
static char path[96];
static surge_error err;

static surge_file_desc desc_of(const char *name) {
  struct stat st;
  memset(&st, 0, sizeof st);
  stat(name, &st);
  err = (surge_error){.struct_size = sizeof err};
  return (surge_file_desc){
      .struct_size = sizeof(surge_file_desc),
      .path_bytes = (uint32_t)strlen(name),
      .path = (uint64_t)(uintptr_t)name,
      .bytes = (uint64_t)st.st_size,
      .mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
      .inode = (uint64_t)st.st_ino,
  };
}

static void write_file(const char *text) {
  FILE *out = fopen(path, "wb");
  fputs(text, out);
  fclose(out);
}

static int32_t try_open(const surge_file_desc *desc) {
  file_map map = {0};
  const int32_t status = file_map_open(&map, desc, &err);
  CHECK((status == SURGE_OK) == (map.base != NULL));
  file_map_close(&map);
  CHECK(map.base == NULL);
  return status;
}

TEST(the_same_file) {
  file_map map = {0};
  write_file("weights");
  const surge_file_desc desc = desc_of(path);
  REQUIRE(file_map_open(&map, &desc, &err) == SURGE_OK);
  CHECK_EQ(map.bytes, 7);
  CHECK_BYTES(map.base, "weights", 7);
  file_map_close(&map);
}

/* The content, and a failure of memory without a trace. */
TEST(a_copy) {
  file_map map = {0};
  write_file("weights");
  const surge_file_desc desc = desc_of(path);
  REQUIRE(file_map_copy(&map, &desc, &err) == SURGE_OK);
  CHECK_BYTES(map.base, "weights", 7);
  file_map_close(&map);
  fault_arm(1);
  CHECK_EQ(file_map_copy(&map, &desc, &err), SURGE_E_MEMORY);
  fault_arm(0);
  CHECK(map.base == NULL);
  surge_file_desc other = desc;
  other.inode++;
  CHECK_EQ(file_map_copy(&map, &other, &err), SURGE_E_CHANGED);
}

TEST(another_size_time_or_inode) {
  write_file("weights");
  surge_file_desc desc = desc_of(path);
  desc.bytes++;
  CHECK_EQ(try_open(&desc), SURGE_E_CHANGED);
  CHECK_STR(err.message, "has 7 bytes now and had 8 when it was read first");
  desc = desc_of(path);
  desc.mtime_ns++;
  CHECK_EQ(try_open(&desc), SURGE_E_CHANGED);
  desc = desc_of(path);
  desc.inode++;
  CHECK_EQ(try_open(&desc), SURGE_E_CHANGED);
}

TEST(not_a_usable_file) {
  surge_file_desc desc = desc_of("no/such/file");
  desc.bytes = 7;
  CHECK_EQ(try_open(&desc), SURGE_E_MISSING);
  desc = desc_of(folder);
  CHECK_EQ(try_open(&desc), SURGE_E_IO);
  CHECK_STR(err.message, "is not a regular file");
  char pipe_path[128];
  snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
  REQUIRE(mkfifo(pipe_path, 0600) == 0);
  desc = desc_of(pipe_path);
  desc.bytes = 7;
  CHECK_EQ(try_open(&desc), SURGE_E_IO); /* and does not wait for a writer */
  unlink(pipe_path);
}

TEST(descriptions_out_of_range) {
  write_file("weights");
  const surge_file_desc good = desc_of(path);
  surge_file_desc desc = good;
  desc.path = 0;
  CHECK_EQ(try_open(&desc), SURGE_E_ARGUMENT);
  desc = good;
  desc.path_bytes = 0;
  CHECK_EQ(try_open(&desc), SURGE_E_ARGUMENT);
  desc = good;
  desc.path_bytes = UINT32_MAX; /* must not be copied */
  CHECK_EQ(try_open(&desc), SURGE_E_ARGUMENT);
  desc = good;
  desc.bytes = 0;
  CHECK_EQ(try_open(&desc), SURGE_E_ARGUMENT);
}

static int next_descriptor(void) {
  const int fd = open(folder, O_RDONLY);
  close(fd);
  return fd;
}

TEST(failures_leave_no_descriptor) {
  write_file("weights");
  const int before = next_descriptor();
  surge_file_desc desc = desc_of(path);
  fault_arm(1);
  CHECK_EQ(try_open(&desc), SURGE_E_IO);
  CHECK_EQ(try_open(&desc), SURGE_OK);
  desc.mtime_ns++;
  CHECK_EQ(try_open(&desc), SURGE_E_CHANGED);
  CHECK_EQ(next_descriptor(), before);
}

int main(void) {
  strcpy(folder, "/tmp/surge-map-test-XXXXXX");
  if (mkdtemp(folder) == NULL) {
    return 1;
  }
  snprintf(path, sizeof path, "%s/model.bin", folder);
  RUN(the_same_file);
  RUN(a_copy);
  RUN(another_size_time_or_inode);
  RUN(not_a_usable_file);
  RUN(descriptions_out_of_range);
  RUN(failures_leave_no_descriptor);
  unlink(path);
  rmdir(folder);
  return check_done();
}
