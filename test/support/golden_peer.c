/*
 * golden_peer.c – computes golden models from a tape (golden_tape.ts), in both precisions, and compares every position's logits with the
 * reference's: whole models on processors where only C runs. Tolerances: test/golden/models/README.md, as golden_test.ts and fast_test.ts.
 */
#include <stdlib.h>

#include "check.h"
#include "surge.h"

enum { MAX_FILES = 8, FIRST = 40, PIECE = 64 };

static FILE *tape;
static const char *tape_path;

/* The next record, with its length; NULL at the tape's end. */
static void *record(uint64_t *ret_bytes) {
  uint64_t bytes = 0;
  if (fread(&bytes, sizeof bytes, 1, tape) != 1 || bytes > (uint64_t)1 << 28) {
    return NULL;
  }
  void *data = malloc(bytes + 1);
  if (data == NULL || fread(data, 1, bytes, tape) != bytes) {
    free(data);
    return NULL;
  }
  *ret_bytes = bytes;
  return data;
}

typedef struct golden {
  char *name;
  surge_engine_desc *desc;
  surge_model_desc *model;
  uint8_t *kinds;
  surge_plan_desc *plan;
  surge_file_desc *files;
  surge_tensor_desc *tensors;
  surge_scale_desc *scales;
  char *paths[MAX_FILES];
  uint32_t *ids;
  float *logits;
  uint32_t count;
} golden;

static int read_golden(golden *g) {
  uint64_t n = 0;
  *g = (golden){.name = record(&n)};
  if (g->name == NULL) {
    return 0;
  }
  g->desc = record(&n);
  g->model = record(&n);
  g->kinds = record(&n);
  g->plan = record(&n);
  g->files = record(&n);
  g->tensors = record(&n);
  g->scales = record(&n);
  for (uint32_t i = 0; g->desc != NULL && g->files != NULL && i < g->desc->file_count && i < MAX_FILES; i++) {
    g->paths[i] = record(&n);
    g->files[i].path = (uint64_t)(uintptr_t)g->paths[i];
  }
  g->ids = record(&n);
  g->count = (uint32_t)(n / sizeof *g->ids);
  g->logits = record(&n);
  if (g->logits == NULL || n != (uint64_t)g->count * g->model->vocab * sizeof(float)) {
    return 0;
  }
  g->model->layer_kinds = (uint64_t)(uintptr_t)g->kinds;
  g->desc->model = (uint64_t)(uintptr_t)g->model;
  g->desc->plan = (uint64_t)(uintptr_t)g->plan;
  g->desc->files = (uint64_t)(uintptr_t)g->files;
  g->desc->tensors = (uint64_t)(uintptr_t)g->tensors;
  g->desc->scales = (uint64_t)(uintptr_t)g->scales;
  return 1;
}

static void drop_golden(golden *g) {
  void *const all[] = {g->name, g->desc, g->model, g->kinds, g->plan, g->files, g->tensors, g->scales, g->ids, g->logits};
  for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    free(all[i]);
  }
  for (uint32_t i = 0; i < MAX_FILES; i++) {
    free(g->paths[i]);
  }
}

/* Logits of [from, from + count) into ret; the plan holds PIECE of them. */
static void feed(surge_engine *engine, const golden *g, uint32_t sequence, uint32_t from, uint32_t count, float *ret) {
  surge_error err = {.struct_size = sizeof err};
  surge_row rows[PIECE];
  uint32_t done = 0;
  for (uint32_t i = 0; i < count; i++) {
    rows[i] = (surge_row){sequence, from + i, g->ids[from + i], SURGE_ROW_LOGITS};
  }
  CHECK_EQ(surge_step_begin(engine, rows, count, &err), SURGE_OK);
  CHECK_EQ(surge_step_run(engine, UINT64_MAX, &done, &err), SURGE_OK);
  for (uint32_t i = 0; i < count; i++) {
    CHECK_EQ(surge_logits(engine, i, ret + (size_t)i * g->model->vocab, g->model->vocab, &err), SURGE_OK);
  }
}

/* FIRST tokens at once, the rest in pieces of `piece`. Returns the root mean square of the differences. */
static double compare(golden *g, uint32_t precision, uint32_t piece, double most) {
  surge_error err = {.struct_size = sizeof err};
  surge_engine *engine = NULL;
  uint32_t sequence = 0;
  const size_t floats = (size_t)g->count * g->model->vocab;
  float *got = calloc(floats, sizeof(float));
  double max = 0;
  double squares = 0;
  g->plan->precision = precision;
  CHECK_EQ(surge_engine_create(g->desc, &engine, &err), SURGE_OK);
  if (engine == NULL || got == NULL) {
    printf("%s: %s\n", g->name, err.message);
    free(got);
    return NAN;
  }
  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  for (uint32_t at = 0, count = FIRST; at < g->count; at += count, count = piece) {
    count = g->count - at < count ? g->count - at : count;
    feed(engine, g, sequence, at, count, got + (size_t)at * g->model->vocab);
  }
  for (size_t i = 0; i < floats; i++) {
    const double difference = fabs((double)got[i] - (double)g->logits[i]);
    CHECK(difference <= most);
    max = difference > max ? difference : max;
    squares += difference * difference;
  }
  surge_engine_destroy(engine);
  free(got);
  printf("%s, %s, then %u at a time: max %.2g, rms %.2g\n", g->name, precision == SURGE_PRECISION_EXACT ? "exact" : "fast", piece, max,
         sqrt(squares / (double)floats));
  return sqrt(squares / (double)floats);
}

TEST(golden_models) {
  golden g;
  uint32_t models = 0;
  tape = fopen(tape_path, "rb");
  REQUIRE(tape != NULL);
  while (read_golden(&g)) {
    CHECK(compare(&g, SURGE_PRECISION_EXACT, PIECE, 2e-3) <= 1e-4);
    CHECK(compare(&g, SURGE_PRECISION_FAST, 1, 0.5) <= 0.1);
    drop_golden(&g);
    models++;
  }
  fclose(tape);
  CHECK_EQ(models, 2);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "golden_peer: say which tape\n");
    return 64;
  }
  tape_path = argv[1];
  RUN(golden_models);
  return check_done();
}
