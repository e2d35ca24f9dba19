/*
 * api_test.c – the whole library through its exported functions, under the sanitizers: a tiny model (tiny_model.h) is built, stepped, forked,
 * sampled and taken back; every way to fail while building leaves nothing behind; calls against the contract are refused.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "tiny_model.h"

static surge_engine *create(void) {
  const surge_engine_desc desc = describe();
  surge_engine *engine = NULL;
  CHECK_EQ(surge_engine_create(&desc, &engine, &err), SURGE_OK);
  return engine;
}

TEST(the_account_adds_up) {
  const surge_engine_desc desc = describe();
  surge_memory m;
  REQUIRE(surge_engine_measure(&desc, &m, &err) == SURGE_OK);
  CHECK_EQ(m.kv + m.states + m.scratch + m.vectors + m.tables, m.total);
  CHECK_EQ(m.mapped, file.bytes);
  CHECK(m.kv >= 2 * 128 * 2 * 4 * sizeof(float)); /* two sequences of 100 tokens in pages of 64, keys and values of 4 */
}

/* Feeds `count` tokens from `position` and reads the last one's logits. */
static void feed(surge_engine *engine, uint32_t sequence, uint32_t position, uint32_t count, float *ret_logits) {
  surge_row rows[80];
  for (uint32_t i = 0; i < count; i++) {
    rows[i] = (surge_row){sequence, position + i, (position + i) * 7 % VOCAB, i + 1 == count ? SURGE_ROW_LOGITS : 0};
  }
  uint32_t done = 0;
  CHECK_EQ(surge_step_begin(engine, rows, count, &err), SURGE_OK);
  CHECK_EQ(surge_step_run(engine, UINT64_MAX, &done, &err), SURGE_OK);
  CHECK_EQ(done, 1);
  CHECK_EQ(surge_logits(engine, 0, ret_logits, VOCAB, &err), SURGE_OK);
}

TEST(steps_forks_and_samples) {
  float at_once[VOCAB];
  float in_pieces[VOCAB];
  float forked[VOCAB];
  uint32_t sequence = 0;
  uint32_t fork = 0;
  surge_sample sample = {.struct_size = sizeof sample};
  const surge_sampler_desc greedy = {.struct_size = sizeof greedy, .top_p = 1, .repeat_penalty = 1, .top_logprobs = 3};
  surge_engine *engine = create();
  REQUIRE(engine != NULL);
  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  feed(engine, sequence, 0, 80, at_once);
  CHECK_EQ(surge_sample_row(engine, 0, sequence, &greedy, &sample, &err), SURGE_OK);
  CHECK_EQ(sample.top_tokens[0], sample.token);
  CHECK(at_once[sample.token] >= at_once[sample.top_tokens[1]]);
  CHECK_EQ(surge_sequence_close(engine, sequence, &err), SURGE_OK);

  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  feed(engine, sequence, 0, 70, in_pieces);
  CHECK_EQ(surge_sequence_fork(engine, sequence, &fork, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_fork(engine, sequence, &fork, &err), SURGE_E_LIMIT);
  feed(engine, fork, 70, 10, forked);
  feed(engine, sequence, 70, 10, in_pieces);
  CHECK_BYTES(in_pieces, at_once, sizeof at_once);
  CHECK_BYTES(forked, at_once, sizeof at_once);
  surge_engine_destroy(engine); /* with sequences open */
}

/* The first row stays, one more is right, two are not. */
static void feed_draft(surge_engine *engine, uint32_t sequence, uint32_t position) {
  surge_row rows[4];
  uint32_t done = 0;
  for (uint32_t i = 0; i < 4; i++) {
    rows[i] = (surge_row){sequence, position + i, ((position + i) * 7 + (i > 1)) % VOCAB, i > 0 ? SURGE_ROW_DRAFT : SURGE_ROW_LOGITS};
  }
  CHECK_EQ(surge_step_begin(engine, rows, 4, &err), SURGE_OK);
  CHECK_EQ(surge_step_run(engine, UINT64_MAX, &done, &err), SURGE_OK);
}

/* Across the end of a page, by three threads. */
TEST(rows_are_taken_back) {
  float at_once[VOCAB];
  float again[VOCAB];
  uint32_t sequence = 0;
  uint32_t guesses[3];
  surge_engine *engine = create();
  REQUIRE(engine != NULL);
  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  feed(engine, sequence, 0, 80, at_once);
  CHECK_EQ(surge_sequence_close(engine, sequence, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  feed(engine, sequence, 0, 62, again);
  const surge_row next = {sequence, 62, 62 * 7 % VOCAB, 0};
  CHECK_EQ(surge_draft(engine, &next, 1, 3, guesses, &err), SURGE_OK);
  CHECK(guesses[0] < VOCAB && guesses[1] < VOCAB && guesses[2] < VOCAB);
  feed_draft(engine, sequence, 62);
  CHECK_EQ(surge_sequence_rewind(engine, sequence, 62, &err), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_rewind(engine, sequence, 64, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_rewind(engine, sequence, 63, &err), SURGE_E_ARGUMENT); /* once */
  feed(engine, sequence, 64, 16, again);
  CHECK_BYTES(again, at_once, sizeof at_once);
  surge_engine_destroy(engine);
}

/* What a slot's last sequence left behind means nothing to the next one. */
TEST(forks_of_nothing_hold_nothing) {
  float alone[VOCAB];
  float forked[VOCAB];
  uint32_t sequence = 0;
  uint32_t fork = 0;
  surge_engine *engine = create();
  REQUIRE(engine != NULL);
  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  feed(engine, sequence, 0, 70, alone);
  CHECK_EQ(surge_sequence_close(engine, sequence, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_open(engine, &sequence, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_fork(engine, sequence, &fork, &err), SURGE_OK);
  feed(engine, sequence, 0, 5, alone);
  feed(engine, fork, 0, 5, forked);
  CHECK_BYTES(forked, alone, sizeof alone);
  surge_engine_destroy(engine);
}

static int lines_of(const char *list, const char *word) {
  char line[512];
  int count = 0;
  FILE *in = fopen(list, "r");
  while (fgets(line, sizeof line, in) != NULL) {
    count += strstr(line, word) != NULL;
  }
  fclose(in);
  return count;
}

TEST(every_failure_to_create_is_clean) {
  const surge_engine_desc desc = describe();
  surge_engine *engine = NULL;
  int32_t status = SURGE_OK;
  uint32_t nth = 0;
  do {
    engine = NULL;
    fault_arm(++nth);
    status = surge_engine_create(&desc, &engine, &err);
    CHECK((status == SURGE_OK) == (engine != NULL));
    if (status < 0) {
      CHECK(status == SURGE_E_MEMORY || status == SURGE_E_IO);
      CHECK_EQ(err.status, status);
      CHECK_EQ(lines_of("/proc/self/maps", path), 0);
    }
  } while (status < 0 && nth < 30);
  fault_arm(0);
  CHECK_EQ(nth, 8); /* engine, arena, mapping, pool, its table and two threads; the eighth try is whole */
  surge_engine_destroy(engine);
  CHECK_EQ(lines_of("/proc/self/maps", path), 0);
}

static uint64_t locked_kib(void) {
  char line[256];
  unsigned long long kib = 0;
  FILE *in = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, in) != NULL && sscanf(line, "VmLck: %llu", &kib) != 1) {
  }
  fclose(in);
  return kib;
}

/* All of it or nothing: what was locked before a later failure is let go. */
TEST(memory_is_locked_whole_or_not) {
  const surge_engine_desc desc = describe();
  surge_engine *engine = NULL;
  void *page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int emulated = mlock2(page, 1, MLOCK_ONFAULT) != 0 && errno == EINVAL;
  munmap(page, 1);
  if (emulated) {
    SKIP("this emulator does not know MLOCK_ONFAULT");
  }
  plan.lock_memory = 1;
  if (surge_engine_create(&desc, &engine, &err) == SURGE_E_MEMORY && strstr(err.message, "RLIMIT_MEMLOCK") != NULL) {
    plan.lock_memory = 0;
    SKIP("this process may not lock what the tiny model needs");
  }
  CHECK(engine != NULL);
  CHECK(locked_kib() >= file.bytes / 1024);
  surge_engine_destroy(engine);
  CHECK_EQ(locked_kib(), 0);
  int32_t status = SURGE_OK;
  uint32_t nth = 0;
  do {
    engine = NULL;
    fault_arm(++nth);
    status = surge_engine_create(&desc, &engine, &err);
    CHECK(status == SURGE_OK || status == SURGE_E_MEMORY || status == SURGE_E_IO);
    CHECK(engine != NULL || locked_kib() == 0);
  } while (status < 0 && nth < 30);
  fault_arm(0);
  CHECK_EQ(nth, 11); /* beside what is taken without locks: the question, the arena's lock and the file's */
  surge_engine_destroy(engine);
  CHECK_EQ(locked_kib(), 0);
  plan.lock_memory = 2;
  CHECK_EQ(surge_engine_create(&desc, &engine, &err), SURGE_E_ARGUMENT);
  plan.lock_memory = 0;
}

TEST(damaged_tables_are_refused_whole) {
  const surge_engine_desc desc = describe();
  surge_engine *engine = NULL;
  for (uint32_t i = 0; i < tensor_count; i++) { /* any tensor missing, or of another shape */
    const surge_tensor_desc kept = tensors[i];
    tensors[i].layer = LAYERS + 1;
    CHECK_EQ(surge_engine_create(&desc, &engine, &err), SURGE_E_DATA);
    tensors[i] = kept;
    tensors[i].cols = kept.cols / 2;
    CHECK_EQ(surge_engine_create(&desc, &engine, &err), SURGE_E_DATA);
    tensors[i] = kept;
  }
  CHECK(engine == NULL);
  CHECK_EQ(lines_of("/proc/self/maps", path), 0);
}

TEST(plans_that_cannot_be) {
  surge_engine_desc desc = describe();
  surge_memory m;
  plan.npu_devices = 1;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_DEVICE);
  desc = describe();
  plan.threads = 0;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_ARGUMENT);
  desc = describe();
  plan.struct_size++;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_ARGUMENT);
  desc = describe();
  plan.draft_rows = plan.step_rows;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_ARGUMENT);
  desc = describe();
  config.mtp_layers = 2;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_DATA);
  desc = describe();
  config.struct_size--;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_ARGUMENT);
  /* Each number is allowed; the bytes of all KV pages, 2^69, are not. */
  static const uint8_t kinds[1024] = {SURGE_LAYER_ATTENTION};
  desc = describe();
  plan.context = 1 << 24;
  plan.sequences = 4096;
  config.heads = 1;
  config.head_dim = 1 << 20;
  config.layers = config.layer_kind_count = 1024;
  config.layer_kinds = (uint64_t)(uintptr_t)kinds;
  CHECK_EQ(surge_engine_measure(&desc, &m, &err), SURGE_E_MEMORY);
}

TEST(null_pointers_are_refused) {
  const surge_engine_desc desc = describe();
  surge_engine *engine = create();
  uint32_t number = 0;
  float logits[VOCAB];
  surge_memory m;
  surge_sample sample;
  const surge_row row = {0, 0, 0, 0};
  const surge_sampler_desc sampler = {.struct_size = sizeof sampler};
  CHECK_EQ(surge_abi(NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_engine_measure(NULL, &m, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_engine_measure(&desc, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_engine_create(NULL, &engine, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_engine_create(&desc, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_open(NULL, &number, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_open(engine, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_fork(engine, 0, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_fork(engine, 0, &number, NULL), SURGE_E_ARGUMENT); /* not open */
  CHECK_EQ(surge_sequence_close(engine, 9, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_rewind(NULL, 0, 0, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_rewind(engine, 0, 0, NULL), SURGE_E_ARGUMENT); /* not open */
  CHECK_EQ(surge_draft(engine, NULL, 1, 1, &number, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_draft(engine, &row, 1, 1, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_draft(engine, &row, 1, 1, &number, NULL), SURGE_E_ARGUMENT); /* not open */
  CHECK_EQ(surge_step_begin(engine, NULL, 1, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_logits(engine, 0, NULL, VOCAB, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_logits(engine, 0, logits, VOCAB, NULL), SURGE_E_ARGUMENT); /* before any step */
  CHECK_EQ(surge_logits(engine, 0, logits, VOCAB - 1, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_engine_placement(NULL, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_engine_placement(engine, NULL, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sample_row(engine, 0, 0, NULL, &sample, NULL), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sample_row(engine, 0, 0, &sampler, NULL, NULL), SURGE_E_ARGUMENT);
  surge_engine_destroy(engine);
  surge_engine_destroy(NULL);
}

int main(void) {
  make_model();
  RUN(the_account_adds_up);
  RUN(steps_forks_and_samples);
  RUN(rows_are_taken_back);
  RUN(forks_of_nothing_hold_nothing);
  RUN(every_failure_to_create_is_clean);
  RUN(damaged_tables_are_refused_whole);
  RUN(memory_is_locked_whole_or_not);
  RUN(plans_that_cannot_be);
  RUN(null_pointers_are_refused);
  drop_model();
  return check_done();
}
