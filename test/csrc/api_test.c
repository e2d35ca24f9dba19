/*
 * api_test.c – the whole library through its exported functions, under the sanitizers: a tiny model of both layer kinds and a prediction layer is built,
 * stepped, forked, sampled and taken back; every way to fail while building leaves nothing behind; calls against the contract are refused.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "check.h"
#include "surge.h"

enum { HIDDEN = 8, VOCAB = 16, EXPERTS = 4, FF = 8, LAYERS = 2, MAX_TENSORS = 64, F32 = 0 };

static const uint8_t KINDS[LAYERS] = {SURGE_LAYER_GDN, SURGE_LAYER_ATTENTION};
static char path[] = "/tmp/surge-api-test-XXXXXX";
static surge_tensor_desc tensors[MAX_TENSORS];
static uint32_t tensor_count;
static surge_file_desc file;
static surge_model_desc config;
static surge_plan_desc plan;
static surge_error err;

static void add(uint32_t role, int32_t layer, uint32_t rows, uint32_t cols, uint32_t experts) {
  const uint64_t stride = (uint64_t)rows * cols * sizeof(float);
  tensors[tensor_count++] = (surge_tensor_desc){.struct_size = sizeof(surge_tensor_desc), .role = role, .layer = layer, .dtype = F32,
                                                .expert_count = experts, .rows = rows, .cols = cols, .scale = -1,
                                                .offset = file.bytes, .expert_stride = stride};
  file.bytes += stride * experts;
}

static void add_mixer(int32_t layer) {
  if (layer == LAYERS || KINDS[layer] == SURGE_LAYER_ATTENTION) {
    add(SURGE_ROLE_ATTN_Q, layer, 16, HIDDEN, 1);
    add(SURGE_ROLE_ATTN_K, layer, 4, HIDDEN, 1);
    add(SURGE_ROLE_ATTN_V, layer, 4, HIDDEN, 1);
    add(SURGE_ROLE_ATTN_OUT, layer, HIDDEN, 8, 1);
    add(SURGE_ROLE_ATTN_Q_NORM, layer, 1, 4, 1);
    add(SURGE_ROLE_ATTN_K_NORM, layer, 1, 4, 1);
    return;
  }
  add(SURGE_ROLE_GDN_QKV, layer, 16, HIDDEN, 1);
  add(SURGE_ROLE_GDN_Z, layer, 8, HIDDEN, 1);
  add(SURGE_ROLE_GDN_B, layer, 2, HIDDEN, 1);
  add(SURGE_ROLE_GDN_A, layer, 2, HIDDEN, 1);
  add(SURGE_ROLE_GDN_OUT, layer, HIDDEN, 8, 1);
  add(SURGE_ROLE_GDN_CONV, layer, 16, 4, 1);
  add(SURGE_ROLE_GDN_DT_BIAS, layer, 1, 2, 1);
  add(SURGE_ROLE_GDN_DECAY, layer, 1, 2, 1);
  tensors[tensor_count - 1].transform = SURGE_TRANSFORM_NEG_EXP;
  add(SURGE_ROLE_GDN_NORM, layer, 1, 4, 1);
}

static void add_layer(int32_t layer) {
  add(SURGE_ROLE_ATTN_NORM, layer, 1, HIDDEN, 1);
  add(SURGE_ROLE_FFN_NORM, layer, 1, HIDDEN, 1);
  add_mixer(layer);
  add(SURGE_ROLE_ROUTER, layer, EXPERTS, HIDDEN, 1);
  add(SURGE_ROLE_EXPERT_GATE, layer, FF, HIDDEN, EXPERTS);
  add(SURGE_ROLE_EXPERT_UP, layer, FF, HIDDEN, EXPERTS);
  add(SURGE_ROLE_EXPERT_DOWN, layer, HIDDEN, FF, EXPERTS);
  add(SURGE_ROLE_SHARED_ROUTER, layer, 1, HIDDEN, 1);
  add(SURGE_ROLE_SHARED_GATE, layer, FF, HIDDEN, 1);
  add(SURGE_ROLE_SHARED_UP, layer, FF, HIDDEN, 1);
  add(SURGE_ROLE_SHARED_DOWN, layer, HIDDEN, FF, 1);
}

/* Lists the tensors, writes a file of that size with made-up weights between -1 and 1, and describes it. */
static void make_model(void) {
  struct stat st;
  add(SURGE_ROLE_TOKEN_EMBEDDING, -1, VOCAB, HIDDEN, 1);
  add(SURGE_ROLE_OUTPUT_NORM, -1, 1, HIDDEN, 1);
  add(SURGE_ROLE_OUTPUT, -1, VOCAB, HIDDEN, 1);
  for (int32_t layer = 0; layer < LAYERS; layer++) {
    add_layer(layer);
  }
  add_layer(LAYERS); /* predicts */
  add(SURGE_ROLE_MTP_PROJECTION, LAYERS, HIDDEN, 2 * HIDDEN, 1);
  add(SURGE_ROLE_MTP_EMBEDDING_NORM, LAYERS, 1, HIDDEN, 1);
  add(SURGE_ROLE_MTP_HIDDEN_NORM, LAYERS, 1, HIDDEN, 1);
  add(SURGE_ROLE_MTP_NORM, LAYERS, 1, HIDDEN, 1);
  const int fd = mkstemp(path);
  FILE *out = fdopen(fd, "wb");
  uint32_t state = 1;
  for (uint64_t i = 0; i < file.bytes / sizeof(float); i++) {
    state = state * 1664525u + 1013904223u;
    const float value = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
    fwrite(&value, sizeof value, 1, out);
  }
  fclose(out);
  stat(path, &st);
  file.struct_size = sizeof file;
  file.path = (uint64_t)(uintptr_t)path;
  file.path_bytes = (uint32_t)strlen(path);
  file.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
  file.inode = (uint64_t)st.st_ino;
}

static surge_engine_desc describe(void) {
  config = (surge_model_desc){.struct_size = sizeof config, .layers = LAYERS, .hidden = HIDDEN, .vocab = VOCAB, .heads = 2, .kv_heads = 1,
                              .head_dim = 4, .rotary_dim = 4, .attn_gated = 1, .gdn_key_heads = 1, .gdn_value_heads = 2, .gdn_key_dim = 4,
                              .gdn_value_dim = 4, .gdn_conv = 4, .experts = EXPERTS, .experts_used = 2, .expert_ff = FF, .shared_ff = FF,
                              .norm_topk = 1, .rms_eps = 1e-6f, .rope_theta = 10000, .rope_factor = 1, .rope_attn_factor = 1,
                              .layer_kind_count = LAYERS, .mtp_layers = 1, .layer_kinds = (uint64_t)(uintptr_t)KINDS};
  plan = (surge_plan_desc){.struct_size = sizeof plan, .threads = 3, .context = 100, .sequences = 2, .step_rows = 80, .logits_rows = 2,
                           .draft_rows = 3};
  err = (surge_error){.struct_size = sizeof err};
  return (surge_engine_desc){.struct_size = sizeof(surge_engine_desc), .file_count = 1, .tensor_count = tensor_count,
                             .model = (uint64_t)(uintptr_t)&config, .plan = (uint64_t)(uintptr_t)&plan, .files = (uint64_t)(uintptr_t)&file,
                             .tensors = (uint64_t)(uintptr_t)tensors};
}

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
  RUN(every_failure_to_create_is_clean);
  RUN(damaged_tables_are_refused_whole);
  RUN(memory_is_locked_whole_or_not);
  RUN(plans_that_cannot_be);
  RUN(null_pointers_are_refused);
  unlink(path);
  return check_done();
}
