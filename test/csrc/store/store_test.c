/*
 * store_test.c – tables that came from a hostile file are refused before a byte of a weight is read; good ones decode. Breaks when an
 * extent, overflow, gap or overlap slips through: the sanitizers see the read.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "store/store.h"

enum { ROWS = 4, COLS = 8, BYTES = ROWS * COLS * 4 };

static const char *const PATH = "/tmp/surge-store-test.bin";
static surge_file_desc file;
static surge_error error;

static void write_file(void) {
  float values[ROWS * COLS];
  struct stat st;
  for (int i = 0; i < ROWS * COLS; i++) {
    values[i] = (float)i;
  }
  FILE *out = fopen(PATH, "wb");
  fwrite(values, 1, sizeof values, out);
  fclose(out);
  stat(PATH, &st);
  file = (surge_file_desc){
      .struct_size = sizeof file,
      .path_bytes = (uint32_t)strlen(PATH),
      .path = (uint64_t)(uintptr_t)PATH,
      .bytes = BYTES,
      .mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
      .inode = (uint64_t)st.st_ino,
  };
}

static surge_tensor_desc tensor(void) {
  return (surge_tensor_desc){.struct_size = sizeof(surge_tensor_desc), .role = SURGE_ROLE_OUTPUT, .layer = -1, .expert_count = 1, .rows = ROWS, .cols = COLS, .scale = -1};
}

/* Opens a store over the tensors in a real arena; the status, with the error filled. */
static int32_t open_tensors(store *s, arena *memory, const surge_tensor_desc *tensors, uint32_t count) {
  static const surge_plan_desc plan = {.struct_size = sizeof plan};
  const surge_engine_desc desc = {
      .struct_size = sizeof desc,
      .plan = (uint64_t)(uintptr_t)&plan,
      .file_count = 1,
      .tensor_count = count,
      .files = (uint64_t)(uintptr_t)&file,
      .tensors = (uint64_t)(uintptr_t)tensors,
  };
  error = (surge_error){.struct_size = sizeof error};
  if (arena_open(memory, 1 << 20, &error) < 0) {
    return SURGE_E_MEMORY;
  }
  const int32_t status = store_open(s, &desc, memory, &error);
  if (status < 0) {
    arena_close(memory);
  }
  return status;
}

static int32_t refusal(surge_tensor_desc t) {
  store s;
  arena memory;
  const int32_t status = open_tensors(&s, &memory, &t, 1);
  if (status == SURGE_OK) {
    store_close(&s);
    arena_close(&memory);
  }
  return status;
}

TEST(rows_decode_across_runs) {
  surge_tensor_desc runs[2] = {tensor(), tensor()};
  store s;
  arena memory;
  float row[COLS];
  write_file();
  runs[0].rows = 1; /* the file's last row first */
  runs[0].offset = 3 * COLS * 4;
  runs[1].row_first = 1;
  runs[1].rows = 3;
  REQUIRE(open_tensors(&s, &memory, runs, 2) == SURGE_OK);
  const store_entry *entry = store_find(&s, SURGE_ROLE_OUTPUT, -1, 0);
  REQUIRE(entry != NULL);
  CHECK_EQ(entry->matrix.rows, 4);
  matrix_decode_row(&entry->matrix, 0, row);
  CHECK(row[0] == 24.0f && row[7] == 31.0f);
  matrix_decode_row(&entry->matrix, 3, row);
  CHECK(row[0] == 16.0f && row[7] == 23.0f);
  CHECK(store_find(&s, SURGE_ROLE_OUTPUT, -1, 1) == NULL);
  CHECK_EQ(store_find_nonfinite(&s, row), -1);
  store_close(&s);
  arena_close(&memory);
}

TEST(extents_outside_the_file_are_refused) {
  surge_tensor_desc t = tensor();
  write_file();
  t.offset = 1;
  CHECK_EQ(refusal(t), SURGE_E_DATA);
  t.offset = UINT64_MAX - 3;
  CHECK_EQ(refusal(t), SURGE_E_DATA);
  t = tensor();
  t.rows = 5;
  CHECK_EQ(refusal(t), SURGE_E_DATA);
  t = tensor();
  t.rows = UINT32_MAX;
  t.cols = UINT32_MAX - 1;
  CHECK_EQ(refusal(t), SURGE_E_DATA);
  t = tensor();
  t.expert_count = 2;
  t.expert_stride = UINT64_MAX;
  CHECK_EQ(refusal(t), SURGE_E_DATA);
  t.expert_stride = 4;
  CHECK_EQ(refusal(t), SURGE_E_DATA);
}

TEST(nonsense_is_refused) {
  surge_tensor_desc t = tensor();
  write_file();
  t.dtype = 36;
  CHECK_EQ(refusal(t), SURGE_E_DTYPE);
  CHECK_EQ(error.tensor, 0);
  t = tensor();
  t.dtype = QUANT_Q4_K; /* rows of 8 are no blocks of 256 */
  CHECK_EQ(refusal(t), SURGE_E_DATA);
  t = tensor();
  t.role = SURGE_ROLE_COUNT;
  CHECK_EQ(refusal(t), SURGE_E_ARGUMENT);
  t = tensor();
  t.file = 1;
  CHECK_EQ(refusal(t), SURGE_E_ARGUMENT);
  t = tensor();
  t.scale = 0;
  CHECK_EQ(refusal(t), SURGE_E_ARGUMENT);
  t = tensor();
  t.row_first = 1; /* a gap before the first row */
  CHECK_EQ(refusal(t), SURGE_E_DATA);
}

TEST(overlapping_runs_are_refused) {
  surge_tensor_desc runs[2] = {tensor(), tensor()};
  store s;
  arena memory;
  write_file();
  runs[1].row_first = 3;
  runs[1].rows = 1;
  CHECK_EQ(open_tensors(&s, &memory, runs, 2), SURGE_E_DATA);
}

TEST(a_changed_file_is_refused) {
  write_file();
  file.mtime_ns++;
  CHECK_EQ(refusal(tensor()), SURGE_E_CHANGED);
  write_file();
  CHECK_EQ(truncate(PATH, BYTES - 4), 0);
  CHECK_EQ(refusal(tensor()), SURGE_E_CHANGED);
  unlink(PATH);
  CHECK_EQ(refusal(tensor()), SURGE_E_MISSING);
}

int main(void) {
  RUN(rows_decode_across_runs);
  RUN(extents_outside_the_file_are_refused);
  RUN(nonsense_is_refused);
  RUN(overlapping_runs_are_refused);
  RUN(a_changed_file_is_refused);
  return check_done();
}
