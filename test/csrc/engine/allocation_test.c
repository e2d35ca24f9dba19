/*
 * allocation_test.c – nothing is allocated, freed, mapped or unmapped between an engine's creation and its end, by any thread.
 * Breaks when: a step, a guess, a rewind, a sample or a refusal takes memory of its own.
 *
 * The linker sends what the library and this program call to the counters below (CMakeLists.txt beside: --wrap). That they count is tested
 * first: each of them, and an engine's creation. The C library's own needs are not seen; the only function the library uses that has any
 * is qsort, which is counted too.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "tiny_model.h"

static _Atomic uint32_t calls;

/* Name, type of what it returns, parameters, arguments. */
#define COUNTED(X) \
  X(malloc, void *, (size_t n), (n)) \
  X(calloc, void *, (size_t n, size_t size), (n, size)) \
  X(realloc, void *, (void *p, size_t n), (p, n)) \
  X(reallocarray, void *, (void *p, size_t n, size_t size), (p, n, size)) \
  X(aligned_alloc, void *, (size_t align, size_t n), (align, n)) \
  X(posix_memalign, int, (void **p, size_t align, size_t n), (p, align, n)) \
  X(mmap, void *, (void *p, size_t n, int protection, int flags, int fd, off_t at), (p, n, protection, flags, fd, at)) \
  X(mmap64, void *, (void *p, size_t n, int protection, int flags, int fd, off_t at), (p, n, protection, flags, fd, at)) \
  X(munmap, int, (void *p, size_t n), (p, n))
/* The same for those that return nothing. */
#define COUNTED_VOID(X) \
  X(free, (void *p), (p)) \
  X(qsort, (void *p, size_t n, size_t size, int (*compare)(const void *, const void *)), (p, n, size, compare))

#define COUNT(name, type, parameters, arguments) \
  type __real_##name parameters; \
  type __wrap_##name parameters; \
  type __wrap_##name parameters { \
    calls++; \
    return __real_##name arguments; \
  }
#define COUNT_VOID(name, parameters, arguments) \
  void __real_##name parameters; \
  void __wrap_##name parameters; \
  void __wrap_##name parameters { \
    calls++; \
    __real_##name arguments; \
  }
COUNTED(COUNT)
COUNTED_VOID(COUNT_VOID)

static uint32_t taken(void) { return atomic_exchange(&calls, 0); }

static int compare_bytes(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

/* The compiler would take a malloc and its free out together. */
static void *volatile kept;

TEST(each_is_counted) {
  char bytes[] = "ba";
  void *p = NULL;
  taken();
  kept = malloc(8);
  CHECK_EQ(taken(), 1);
  kept = realloc(kept, 16);
  CHECK_EQ(taken(), 1);
  kept = reallocarray(kept, 2, 16);
  CHECK_EQ(taken(), 1);
  free(kept);
  CHECK_EQ(taken(), 1);
  kept = calloc(2, 4);
  free(kept);
  CHECK_EQ(taken(), 2);
  kept = aligned_alloc(64, 64);
  free(kept);
  CHECK_EQ(taken(), 2);
  CHECK_EQ(posix_memalign(&p, 64, 64), 0);
  kept = p;
  free(kept);
  CHECK_EQ(taken(), 2);
  kept = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* mmap64 by its other name */
  CHECK(kept != MAP_FAILED);
  CHECK_EQ(munmap(kept, 4096), 0);
  CHECK_EQ(taken(), 2);
  qsort(bytes, 2, 1, compare_bytes);
  CHECK_EQ(taken(), 1);
}

static surge_engine *create(uint32_t precision, uint32_t kv_dtype, uint32_t threads) {
  const surge_engine_desc desc = describe();
  surge_engine *engine = NULL;
  plan.precision = precision;
  plan.kv_dtype = kv_dtype;
  plan.threads = threads;
  plan.logits_rows = 8;
  CHECK_EQ(surge_engine_create(&desc, &engine, &err), SURGE_OK);
  return engine;
}

TEST(building_and_taking_down_are_counted) {
  taken();
  surge_engine *engine = create(SURGE_PRECISION_EXACT, SURGE_KV_F32, 2);
  REQUIRE(engine != NULL);
  CHECK(taken() >= 5); /* engine, arena, mapping, pool and its table */
  surge_engine_destroy(engine);
  CHECK(taken() >= 5);
}

/* `count` rows from `position`, the last `drafts` of them to be taken back; every row after the first asks for logits. */
static uint32_t put_rows(surge_row *rows, uint32_t sequence, uint32_t position, uint32_t count, uint32_t drafts) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t flags = (i + 4 >= count ? SURGE_ROW_LOGITS : 0) | (i + drafts >= count ? SURGE_ROW_DRAFT : 0);
    rows[i] = (surge_row){sequence, position + i, (position + i) * 7 % VOCAB, flags};
  }
  return count;
}

static void step(surge_engine *engine, const surge_row *rows, uint32_t count, uint64_t budget_us) {
  uint32_t done = 0;
  CHECK_EQ(surge_step_begin(engine, rows, count, &err), SURGE_OK);
  for (uint32_t slices = 0; !done && slices < 100; slices++) {
    CHECK_EQ(surge_step_run(engine, budget_us, &done, &err), SURGE_OK);
  }
  CHECK_EQ(done, 1);
}

static void sample_every_way(surge_engine *engine, uint32_t sequence) {
  static const surge_logit_bias bias = {3, 0.5f};
  static float logits[VOCAB];
  surge_sample sample = {.struct_size = sizeof sample};
  surge_sampler_desc s = {.struct_size = sizeof s, .top_p = 1, .repeat_penalty = 1};
  CHECK_EQ(surge_sample_row(engine, 0, sequence, &s, &sample, &err), SURGE_OK);
  s = (surge_sampler_desc){.struct_size = sizeof s, .temperature = 0.8f, .top_k = 9, .top_p = 0.9f, .min_p = 0.01f, .presence_penalty = 0.5f,
                           .frequency_penalty = 0.25f, .repeat_penalty = 1.1f, .answer_from = 10, .top_logprobs = 5, .bias_count = 1,
                           .want_logprob = 1, .biases = (uint64_t)(uintptr_t)&bias, .seed = 7};
  CHECK_EQ(surge_sample_row(engine, 0, sequence, &s, &sample, &err), SURGE_OK);
  CHECK_EQ(surge_logits(engine, 0, logits, VOCAB, &err), SURGE_OK);
}

/* Two sequences: a guess for both, its verification beside a decode row, partly and wholly taken back, across the end of a page. */
static void draft_and_verify(surge_engine *engine, uint32_t a, uint32_t b, uint32_t at) {
  surge_row rows[8];
  uint32_t guesses[6];
  put_rows(rows, a, at, 1, 0);
  put_rows(rows + 1, b, at, 1, 0);
  CHECK_EQ(surge_draft(engine, rows, 2, 3, guesses, &err), SURGE_OK);
  step(engine, rows, put_rows(rows, a, at, 4, 3) + put_rows(rows + 4, b, at, 4, 3), 0);
  CHECK_EQ(surge_sequence_rewind(engine, a, at + 2, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_rewind(engine, b, at + 1, &err), SURGE_OK);
  step(engine, rows, put_rows(rows, a, at + 2, 2, 1) + put_rows(rows + 2, b, at + 1, 1, 0), UINT64_MAX);
  CHECK_EQ(surge_sequence_rewind(engine, a, at + 3, &err), SURGE_OK);
}

static void refuse(surge_engine *engine, uint32_t sequence) {
  surge_row row = {sequence, 0, 0, 0};
  uint32_t number = 0;
  CHECK_EQ(surge_step_begin(engine, &row, 1, &err), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_draft(engine, &row, 1, 1, &number, &err), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_rewind(engine, sequence, 0, &err), SURGE_E_ARGUMENT);
  CHECK_EQ(surge_sequence_open(engine, &number, &err), SURGE_E_LIMIT);
}

/* Everything a scheduler does between opening a model and closing it. */
static void live(surge_engine *engine) {
  static surge_row rows[80];
  static surge_counters counters;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t done = 0;
  CHECK_EQ(surge_sequence_open(engine, &a, &err), SURGE_OK);
  step(engine, rows, put_rows(rows, a, 0, 61, 0), 0); /* prefill, in slices */
  sample_every_way(engine, a);
  CHECK_EQ(surge_sequence_fork(engine, a, &b, &err), SURGE_OK);
  draft_and_verify(engine, a, b, 61); /* from a page that both hold */
  refuse(engine, a);
  for (uint32_t i = 0; i < 3; i++) { /* decode, and beside it the end of a prompt */
    step(engine, rows, put_rows(rows, a, 64 + i, 1, 0) + put_rows(rows + 1, b, 63 + 5 * i, 5, 0), UINT64_MAX);
  }
  CHECK_EQ(surge_engine_counters(engine, &counters, &err), SURGE_OK);
  put_rows(rows, b, 78, 1, 0);
  CHECK_EQ(surge_step_begin(engine, rows, 1, &err), SURGE_OK);
  CHECK_EQ(surge_step_run(engine, 0, &done, &err), SURGE_OK);
  CHECK_EQ(surge_step_abandon(engine, &err), SURGE_OK); /* cancelled: b is gone */
  CHECK_EQ(surge_sequence_open(engine, &b, &err), SURGE_OK);
  step(engine, rows, put_rows(rows, b, 0, 80, 0), UINT64_MAX);
  CHECK_EQ(surge_sequence_close(engine, a, &err), SURGE_OK);
  CHECK_EQ(surge_sequence_close(engine, b, &err), SURGE_OK);
}

TEST(nothing_is_taken_or_given_back_in_between) {
  for (uint32_t i = 0; i < 12; i++) {
    surge_engine *engine = create(i % 2, i / 2 % 2, 1 + i / 4);
    REQUIRE(engine != NULL);
    taken();
    live(engine);
    CHECK_EQ(taken(), 0);
    surge_engine_destroy(engine);
  }
}

int main(void) {
  make_model();
  RUN(each_is_counted);
  RUN(building_and_taking_down_are_counted);
  RUN(nothing_is_taken_or_given_back_in_between);
  drop_model();
  return check_done();
}
