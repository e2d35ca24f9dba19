/*
 * engine.h – manifest + plan made real: owns the weights' mappings, the KV pages, the recurrent states, the scratch and the threads.
 *
 * All memory is one arena taken in engine_create; nothing is allocated later. One thread calls at a time. Invariant: a sequence's
 * pages, states and token history always describe the same `length` tokens.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/arena.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "store/store.h"
#include "surge.h"

typedef struct sequence {
  uint32_t open;
  uint32_t moving; /* in the step that is under way: neither forked nor closed */
  uint32_t length;
  uint32_t page_count;
  uint32_t *tokens; /* [context] */
  uint32_t *pages;  /* [pages of context] */
  float *states;    /* [model_state_floats] */
} sequence;

struct surge_engine {
  surge_plan_desc plan;
  arena memory;
  store weights;
  model model;
  kv_pool kv;
  pool *pool;
  sequence *sequences;
  model_span *spans;
  sampler_scratch sampler;
  float *row; /* [widest matrix], for diagnosis */
  uint32_t logits_rows; /* of the last step */
  surge_row *rows; /* [step_rows] of the step that is under way */
  model_batch batch;
  uint32_t stage; /* next stage of that step; 0 where none is under way */
  surge_counters counters;
};

int32_t engine_measure(const surge_engine_desc *desc, surge_memory *ret_memory, surge_error *err);
int32_t engine_create(const surge_engine_desc *desc, surge_engine **ret_engine, surge_error *err);
void engine_destroy(surge_engine *engine);

int32_t sequence_open(surge_engine *engine, uint32_t *ret_sequence, surge_error *err);
int32_t sequence_fork(surge_engine *engine, uint32_t from, uint32_t *ret_sequence, surge_error *err);
int32_t sequence_close(surge_engine *engine, uint32_t index, surge_error *err);
/* Gives the sequence pages of its own for `count` more tokens; cannot fail below the context's length. */
void sequence_extend(surge_engine *engine, sequence *s, uint32_t count);

int32_t engine_step_begin(surge_engine *engine, const surge_row *rows, uint32_t row_count, surge_error *err);
int32_t engine_step_run(surge_engine *engine, uint64_t budget_us, uint32_t *ret_done, surge_error *err);
int32_t engine_step_abandon(surge_engine *engine, surge_error *err);

int32_t engine_logits(surge_engine *engine, uint32_t logits_row, float *ret_logits, uint32_t count, surge_error *err);
int32_t engine_sample(surge_engine *engine, uint32_t logits_row, uint32_t sequence, const surge_sampler_desc *sampler, surge_sample *ret_sample,
                      surge_error *err);

#endif
