/*
 * engine.c – building and taking down an engine. Measuring and creating run the same code over an arena that only counts, or gives.
 */
#include "engine/engine.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/fault.h"
#include "npu/npu.h"
#include "os/lock.h"

enum { MAX_THREADS = 512, MAX_SEQUENCES = 4096, MAX_STEP_ROWS = 65536, MAX_CONTEXT = 1 << 24 };

static int32_t check_plan(const surge_plan_desc *p, surge_error *err) {
  if (p->precision > SURGE_PRECISION_FAST || p->kv_dtype > SURGE_KV_F16 || p->threads == 0 || p->threads > MAX_THREADS ||
      p->context == 0 || p->context > MAX_CONTEXT || p->sequences == 0 || p->sequences > MAX_SEQUENCES || p->step_rows == 0 ||
      p->step_rows > MAX_STEP_ROWS || p->logits_rows == 0 || p->logits_rows > p->step_rows || p->copy_weights > 1 ||
      p->lock_memory > 1 ||
      p->draft_rows >= p->step_rows) {
    return error_set(err, SURGE_E_ARGUMENT, "the plan has %u threads, context %u, %u sequences, %u rows a step, %u with logits, %u drafts",
                     p->threads, p->context, p->sequences, p->step_rows, p->logits_rows, p->draft_rows);
  }
  return SURGE_OK;
}

static const uint32_t *plan_cpus(const surge_plan_desc *p) { return (const uint32_t *)(uintptr_t)p->cpus; }

static void reserve_sequences(surge_engine *e, arena *memory) {
  const surge_plan_desc *p = &e->plan;
  e->sequences = arena_take(memory, p->sequences * sizeof(sequence), _Alignof(sequence));
  e->spans = arena_take(memory, p->sequences * sizeof(model_span), _Alignof(model_span));
  for (uint32_t i = 0; i < p->sequences; i++) {
    uint32_t *tokens = arena_take(memory, p->context * sizeof(uint32_t), 64);
    uint32_t *pages = arena_take(memory, kv_pages_for(p->context) * sizeof(uint32_t), 64);
    if (!arena_measuring(memory) && e->sequences != NULL) {
      e->sequences[i] = (sequence){.tokens = tokens, .pages = pages};
    }
  }
}

static void reserve_states(surge_engine *e, arena *memory) {
  for (uint32_t i = 0; i < e->plan.sequences; i++) {
    float *states = arena_take(memory, model_state_floats(&e->model) * sizeof(float), 64);
    if (!arena_measuring(memory) && e->sequences != NULL) {
      e->sequences[i].states = states;
    }
  }
}

static uint32_t widest_row(const surge_engine_desc *desc) {
  const surge_tensor_desc *tensors = (const surge_tensor_desc *)(uintptr_t)desc->tensors;
  uint32_t widest = 1;
  for (uint32_t i = 0; i < desc->tensor_count; i++) {
    widest = tensors[i].cols > widest ? tensors[i].cols : widest;
  }
  return widest;
}

static uint64_t since(const arena *memory, uint64_t *mark) {
  const uint64_t bytes = arena_used(memory) - *mark;
  *mark = arena_used(memory);
  return bytes;
}

/* Takes (or counts) all memory in one fixed order and fills ret_memory by class. */
static int32_t build(surge_engine *e, const surge_engine_desc *desc, arena *memory, surge_memory *ret_memory, surge_error *err) {
  const uint32_t vocab = ((const surge_model_desc *)(uintptr_t)desc->model)->vocab;
  uint64_t mark = arena_used(memory);
  int32_t status = model_configure(&e->model, (const surge_model_desc *)(uintptr_t)desc->model, &e->plan, memory, err);
  if (status == SURGE_OK) {
    status = store_open(&e->weights, desc, memory, err);
  }
  if (status < 0) {
    return status;
  }
  ret_memory->tables = since(memory, &mark);
  status = model_bind(&e->model, &e->weights, memory, err);
  if (status < 0) {
    return status;
  }
  ret_memory->vectors = since(memory, &mark);
  kv_open(&e->kv, &e->model.desc, &e->plan, model_kv_layers(&e->model), memory);
  ret_memory->kv = since(memory, &mark);
  reserve_sequences(e, memory);
  reserve_states(e, memory);
  draft_reserve(e, memory);
  ret_memory->states = since(memory, &mark);
  model_reserve(&e->model, &e->plan, memory);
  sampler_reserve(&e->sampler, vocab, memory);
  e->rows = arena_take(memory, e->plan.step_rows * sizeof(surge_row), _Alignof(surge_row));
  e->asked = arena_take(memory, e->plan.logits_rows * sizeof(surge_row), _Alignof(surge_row));
  e->row = arena_take(memory, widest_row(desc) * sizeof(float), 64);
  ret_memory->scratch = since(memory, &mark);
  ret_memory->mapped = e->weights.mapped_bytes;
  ret_memory->copied = e->weights.copied_bytes;
  ret_memory->total = arena_used(memory);
  return memory->exhausted ? error_set(err, SURGE_E_MEMORY, "the plan needs more memory than can be addressed") : SURGE_OK;
}

/* Each file may end in a page, or a huge page, that it does not fill. */
static int32_t check_lock(const surge_engine_desc *desc, const surge_memory *need, surge_error *err) {
  const surge_plan_desc *plan = (const surge_plan_desc *)(uintptr_t)desc->plan;
  const uint64_t slack = (uint64_t)desc->file_count * (plan->copy_weights ? FILE_MAP_HUGE_PAGE : FILE_MAP_PAGE);
  return plan->lock_memory ? memory_lock_check(need->total + need->mapped + need->copied + slack, err) : SURGE_OK;
}

static int32_t lock_all(const surge_engine *e, surge_error *err) {
  int32_t status = memory_lock(e->memory.base, e->memory.size, err);
  for (uint32_t i = 0; i < e->weights.file_count && status == SURGE_OK; i++) {
    status = memory_lock(e->weights.files[i].base, e->weights.files[i].bytes, err);
  }
  return status;
}

static int32_t check_desc(const surge_engine_desc *desc, surge_error *err) {
  if (desc->struct_size != sizeof *desc || desc->model == 0 || desc->plan == 0 || desc->file_count == 0 || desc->tensor_count == 0) {
    return error_set(err, SURGE_E_ARGUMENT, "the engine's description is incomplete");
  }
  const surge_plan_desc *plan = (const surge_plan_desc *)(uintptr_t)desc->plan;
  const surge_model_desc *config = (const surge_model_desc *)(uintptr_t)desc->model;
  if (plan->struct_size != sizeof *plan || config->struct_size != sizeof *config) {
    return error_set(err, SURGE_E_ARGUMENT, "a struct has another size than this library's");
  }
  int32_t status = check_plan(plan, err);
  if (status == SURGE_OK) {
    status = pool_check_cpus(plan_cpus(plan), plan->threads, err);
  }
  return status < 0 ? status : npu_open(plan->npu_devices, err);
}

int32_t engine_measure(const surge_engine_desc *desc, surge_memory *ret_memory, surge_error *err) {
  const int32_t status = check_desc(desc, err);
  if (status < 0) {
    return status;
  }
  surge_engine probe = {.plan = *(const surge_plan_desc *)(uintptr_t)desc->plan};
  arena counter;
  arena_measure(&counter);
  *ret_memory = (surge_memory){.struct_size = sizeof *ret_memory};
  const int32_t built = build(&probe, desc, &counter, ret_memory, err);
  return built < 0 ? built : check_lock(desc, ret_memory, err);
}

int32_t engine_create(const surge_engine_desc *desc, surge_engine **ret_engine, surge_error *err) {
  surge_memory need;
  int32_t status = engine_measure(desc, &need, err);
  if (status < 0) {
    return status;
  }
  surge_engine *e = fault_now() ? NULL : calloc(1, sizeof *e);
  if (e == NULL) {
    return error_set(err, SURGE_E_MEMORY, "no memory for the engine");
  }
  e->plan = *(const surge_plan_desc *)(uintptr_t)desc->plan;
  e->counters.struct_size = sizeof e->counters;
  status = arena_open(&e->memory, need.total, err);
  if (status == SURGE_OK) {
    status = build(e, desc, &e->memory, &need, err);
  }
  if (status == SURGE_OK && e->plan.lock_memory) {
    status = lock_all(e, err);
  }
  if (status == SURGE_OK) {
    status = pool_open(&e->pool, e->plan.threads, plan_cpus(&e->plan), err);
  }
  if (status < 0) {
    engine_destroy(e);
    return status;
  }
  e->plan.cpus = 0; /* the caller's, valid during this call only */
  model_ready(&e->model, &e->plan);
  *ret_engine = e;
  return SURGE_OK;
}

void engine_destroy(surge_engine *e) {
  if (e == NULL) {
    return;
  }
  if (e->pool != NULL) {
    pool_close(e->pool);
  }
  store_close(&e->weights);
  arena_close(&e->memory);
  free(e);
}
