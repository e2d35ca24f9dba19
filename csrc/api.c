/*
 * api.c – the only exported functions. Each checks its pointers and forwards: the boundary is here so that the inside may trust them.
 */
#include <string.h>

#include "abi/layout.h"
#include "base/error.h"
#include "cpu/dispatch.h"
#include "cpu/probe.h"
#include "engine/engine.h"
#include "surge.h"

static int32_t null_argument(surge_error *err) { return error_set(err, SURGE_E_ARGUMENT, "a pointer is null"); }

int32_t surge_abi(surge_abi_info *ret_info) {
  if (ret_info == NULL) {
    return SURGE_E_ARGUMENT;
  }
  *ret_info = (surge_abi_info){sizeof *ret_info, SURGE_ABI_VERSION, abi_layout_hash()};
  return SURGE_OK;
}

int32_t surge_engine_measure(const surge_engine_desc *desc, surge_memory *ret_memory, surge_error *err) {
  return desc == NULL || ret_memory == NULL ? null_argument(err) : engine_measure(desc, ret_memory, err);
}

int32_t surge_engine_create(const surge_engine_desc *desc, surge_engine **ret_engine, surge_error *err) {
  return desc == NULL || ret_engine == NULL ? null_argument(err) : engine_create(desc, ret_engine, err);
}

void surge_engine_destroy(surge_engine *engine) { engine_destroy(engine); }

int32_t surge_sequence_open(surge_engine *engine, uint32_t *ret_sequence, surge_error *err) {
  return engine == NULL || ret_sequence == NULL ? null_argument(err) : sequence_open(engine, ret_sequence, err);
}

int32_t surge_sequence_fork(surge_engine *engine, uint32_t index, uint32_t *ret_sequence, surge_error *err) {
  return engine == NULL || ret_sequence == NULL ? null_argument(err) : sequence_fork(engine, index, ret_sequence, err);
}

int32_t surge_sequence_close(surge_engine *engine, uint32_t index, surge_error *err) {
  return engine == NULL ? null_argument(err) : sequence_close(engine, index, err);
}

int32_t surge_sequence_rewind(surge_engine *engine, uint32_t index, uint32_t length, surge_error *err) {
  return engine == NULL ? null_argument(err) : sequence_rewind(engine, index, length, err);
}

int32_t surge_draft(surge_engine *engine, const surge_row *rows, uint32_t row_count, uint32_t count, uint32_t *ret_tokens, surge_error *err) {
  return engine == NULL || rows == NULL || ret_tokens == NULL ? null_argument(err)
                                                              : engine_draft(engine, rows, row_count, count, ret_tokens, err);
}

int32_t surge_step_begin(surge_engine *engine, const surge_row *rows, uint32_t row_count, surge_error *err) {
  return engine == NULL || rows == NULL ? null_argument(err) : engine_step_begin(engine, rows, row_count, err);
}

int32_t surge_step_run(surge_engine *engine, uint64_t budget_us, uint32_t *ret_done, surge_error *err) {
  return engine == NULL || ret_done == NULL ? null_argument(err) : engine_step_run(engine, budget_us, ret_done, err);
}

int32_t surge_step_abandon(surge_engine *engine, surge_error *err) {
  return engine == NULL ? null_argument(err) : engine_step_abandon(engine, err);
}

int32_t surge_engine_counters(const surge_engine *engine, surge_counters *ret_counters, surge_error *err) {
  if (engine == NULL || ret_counters == NULL) {
    return null_argument(err);
  }
  *ret_counters = engine->counters;
  return SURGE_OK;
}

int32_t surge_engine_placement(surge_engine *engine, surge_placement *ret_placement, surge_error *err) {
  return engine == NULL || ret_placement == NULL ? null_argument(err) : engine_placement(engine, ret_placement, err);
}

int32_t surge_cpu(surge_cpu_info *ret_info, surge_error *err) {
  const cpu_kernels *kernels = NULL;
  if (ret_info == NULL) {
    return null_argument(err);
  }
  const int32_t status = cpu_dispatch(&kernels, err);
  if (status < 0) {
    return status;
  }
  *ret_info = (surge_cpu_info){.struct_size = sizeof *ret_info, .tile_rows = kernels->tile_rows};
  ret_info->name_bytes = (uint32_t)strlen(kernels->name);
  memcpy(ret_info->name, kernels->name, ret_info->name_bytes);
  return SURGE_OK;
}

int32_t surge_logits(surge_engine *engine, uint32_t logits_row, float *ret_logits, uint32_t count, surge_error *err) {
  return engine == NULL || ret_logits == NULL ? null_argument(err) : engine_logits(engine, logits_row, ret_logits, count, err);
}

int32_t surge_sample_row(surge_engine *engine, uint32_t logits_row, uint32_t index, const surge_sampler_desc *sampler,
                         surge_sample *ret_sample, surge_error *err) {
  return engine == NULL || sampler == NULL || ret_sample == NULL
             ? null_argument(err)
             : engine_sample(engine, logits_row, index, sampler, ret_sample, err);
}

int32_t surge_probe_open(uint32_t threads, uint64_t bytes, surge_probe **ret_probe, surge_error *err) {
  return ret_probe == NULL ? null_argument(err) : probe_open(ret_probe, threads, bytes, err);
}

double surge_probe_bandwidth(surge_probe *probe) { return probe == NULL ? 0 : probe_bandwidth(probe); }

double surge_probe_int8(surge_probe *probe) { return probe == NULL ? 0 : probe_int8(probe); }

void surge_probe_close(surge_probe *probe) { probe_close(probe); }
