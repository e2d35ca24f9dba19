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
  /* What taking rows back needs (draft.c). */
  float *kept;          /* [model_state_floats]: states of kept_length tokens, where certain < length */
  float *journal;       /* [model_journal_floats]: what was fed to them since */
  uint32_t kept_length;
  uint32_t certain;     /* the least length to go back to */
  /* Of the MTP layer (draft.c). */
  float *hidden;        /* after the final norm, at hidden_first and on */
  uint32_t hidden_first;
  uint32_t mtp_slots;   /* of its keys and values, made from tokens that are held */
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
  uint32_t logits_rows; /* of the last step or draft */
  surge_row *asked; /* [plan.logits_rows]: the rows that they belong to */
  surge_row *rows; /* [step_rows] of the step that is under way */
  model_batch batch;
  surge_row *mtp_rows; /* [step_rows]: what follows the step's rows in the MTP layer */
  model_span *mtp_spans;
  const float **mtp_hidden; /* [step_rows] */
  model_batch mtp_batch;
  uint32_t stage; /* next stage of that step; 0 where none is under way */
  uint64_t stage_us[2]; /* what its last two stages took: mixers and experts take turns */
  surge_counters counters;
};

int32_t engine_measure(const surge_engine_desc *desc, surge_memory *ret_memory, surge_error *err);
int32_t engine_create(const surge_engine_desc *desc, surge_engine **ret_engine, surge_error *err);
void engine_destroy(surge_engine *engine);

int32_t sequence_open(surge_engine *engine, uint32_t *ret_sequence, surge_error *err);
int32_t sequence_fork(surge_engine *engine, uint32_t from, uint32_t *ret_sequence, surge_error *err);
int32_t sequence_close(surge_engine *engine, uint32_t index, surge_error *err);
/* NULL, with an error, where it is not open or a step moves it. */
sequence *sequence_at_rest(surge_engine *engine, uint32_t index, surge_error *err);
/* Gives the sequence pages of its own for `count` more tokens; cannot fail below the context's length. */
void sequence_extend(surge_engine *engine, sequence *s, uint32_t count);

int32_t sequence_rewind(surge_engine *engine, uint32_t index, uint32_t length, surge_error *err);
int32_t engine_draft(surge_engine *engine, const surge_row *rows, uint32_t row_count, uint32_t count, uint32_t *ret_tokens, surge_error *err);
void draft_reserve(surge_engine *engine, arena *memory);
/* Makes room for the hidden states of the step that begins, and the MTP layer's batch for it: empty where that can wait. */
void draft_follow(surge_engine *engine);
/* After a step: what its span leaves for the next guess, and for taking rows back. */
void draft_keep(surge_engine *engine, const model_span *span);

/* Checks rows for a step that could begin now, and cuts them into spans. */
int32_t step_check(surge_engine *engine, const surge_row *rows, uint32_t row_count, uint32_t *ret_spans, surge_error *err);
int32_t engine_step_begin(surge_engine *engine, const surge_row *rows, uint32_t row_count, surge_error *err);
int32_t engine_step_run(surge_engine *engine, uint64_t budget_us, uint32_t *ret_done, surge_error *err);
int32_t engine_step_abandon(surge_engine *engine, surge_error *err);

int32_t engine_placement(surge_engine *engine, surge_placement *ret_placement, surge_error *err);

int32_t engine_logits(surge_engine *engine, uint32_t logits_row, float *ret_logits, uint32_t count, surge_error *err);
int32_t engine_sample(surge_engine *engine, uint32_t logits_row, uint32_t sequence, const surge_sampler_desc *sampler, surge_sample *ret_sample,
                      surge_error *err);

#endif
