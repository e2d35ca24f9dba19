/*
 * step.c – one advance of a batch of sequences, in slices of bounded time, and what is read off it. Everything is checked before
 * anything moves: a step that is refused leaves every sequence as it was; one that is abandoned takes its sequences with it.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "engine/engine.h"

static int32_t check_row(surge_engine *e, const surge_row *rows, uint32_t row, uint32_t span_start, surge_error *err) {
  const surge_row *r = &rows[row];
  if (r->sequence >= e->plan.sequences || !e->sequences[r->sequence].open) {
    return error_set(err, SURGE_E_ARGUMENT, "row %u names sequence %u, which is not open", row, r->sequence);
  }
  const sequence *s = &e->sequences[r->sequence];
  if (r->token >= e->model.desc.vocab) {
    return error_set(err, SURGE_E_ARGUMENT, "row %u holds token %u of a vocabulary of %u", row, r->token, e->model.desc.vocab);
  }
  if (r->position != s->length + (row - span_start)) {
    return error_set(err, SURGE_E_ARGUMENT, "row %u is at position %u where %u is due", row, r->position, s->length + (row - span_start));
  }
  if (r->position >= e->plan.context) {
    return error_set(err, SURGE_E_CONTEXT, "position %u is past the context of %u tokens", r->position, e->plan.context);
  }
  return SURGE_OK;
}

/* Rows that may be taken back: last in their span, not all of it, no more than the plan keeps. */
static int32_t count_draft(const surge_engine *e, const surge_row *rows, uint32_t row, model_span *span, surge_error *err) {
  if (rows[row].flags & SURGE_ROW_DRAFT) {
    span->drafts++;
  }
  if (span->drafts > 0 && (span->drafts == span->count || !(rows[row].flags & SURGE_ROW_DRAFT))) {
    return error_set(err, SURGE_E_ARGUMENT, "row %u: rows that may be taken back come last, after one that stays", row);
  }
  if (span->drafts > 0 && span->count > e->plan.draft_rows + 1) {
    return error_set(err, SURGE_E_LIMIT, "row %u is more than the %u that the plan can take back", row, e->plan.draft_rows);
  }
  return SURGE_OK;
}

/* Cuts the rows into spans; rows of one sequence must be adjacent. */
static int32_t make_spans(surge_engine *e, const surge_row *rows, uint32_t row_count, uint32_t *ret_spans, surge_error *err) {
  uint32_t spans = 0;
  uint32_t wanted = 0;
  for (uint32_t row = 0; row < row_count; row++) {
    if (row == 0 || rows[row].sequence != rows[row - 1].sequence) {
      if (spans == e->plan.sequences) {
        return error_set(err, SURGE_E_ARGUMENT, "the rows of a sequence are not adjacent");
      }
      e->spans[spans++] = (model_span){.row = row};
    }
    model_span *span = &e->spans[spans - 1];
    int32_t status = check_row(e, rows, row, span->row, err);
    if (status == SURGE_OK) {
      span->count++;
      status = count_draft(e, rows, row, span, err);
    }
    if (status < 0) {
      return status;
    }
    wanted += rows[row].flags & SURGE_ROW_LOGITS;
  }
  if (wanted > e->plan.logits_rows) {
    return error_set(err, SURGE_E_LIMIT, "%u rows ask for logits where the plan holds %u", wanted, e->plan.logits_rows);
  }
  *ret_spans = spans;
  return SURGE_OK;
}

/* A sequence that comes twice in the spans passed the position check only if its second span were a continuation; refuse it. */
static int32_t check_adjacent(const surge_engine *e, const surge_row *rows, uint32_t spans, surge_error *err) {
  for (uint32_t i = 1; i < spans; i++) {
    for (uint32_t j = 0; j < i; j++) {
      if (rows[e->spans[i].row].sequence == rows[e->spans[j].row].sequence) {
        return error_set(err, SURGE_E_ARGUMENT, "the rows of sequence %u are not adjacent", rows[e->spans[i].row].sequence);
      }
    }
  }
  return SURGE_OK;
}

int32_t step_check(surge_engine *e, const surge_row *rows, uint32_t row_count, uint32_t *ret_spans, surge_error *err) {
  int32_t status = e->batch.row_count == 0 ? SURGE_OK : error_set(err, SURGE_E_ARGUMENT, "a step is under way");
  if (status == SURGE_OK && (row_count == 0 || row_count > e->plan.step_rows)) {
    status = error_set(err, SURGE_E_LIMIT, "a step of %u rows where the plan holds 1 to %u", row_count, e->plan.step_rows);
  }
  if (status == SURGE_OK) {
    status = make_spans(e, rows, row_count, ret_spans, err);
  }
  if (status == SURGE_OK) {
    status = check_adjacent(e, rows, *ret_spans, err);
  }
  return status;
}

int32_t engine_step_begin(surge_engine *e, const surge_row *rows, uint32_t row_count, surge_error *err) {
  uint32_t spans = 0;
  const int32_t status = step_check(e, rows, row_count, &spans, err);
  if (status < 0) {
    return status;
  }
  memcpy(e->rows, rows, row_count * sizeof *rows);
  for (uint32_t i = 0; i < spans; i++) {
    model_span *span = &e->spans[i];
    sequence *s = &e->sequences[rows[span->row].sequence];
    sequence_extend(e, s, span->count);
    s->moving = 1;
    s->certain = s->length;
    span->position = s->length;
    span->pages = s->pages;
    span->states = s->states;
    span->kept = span->drafts > 0 ? s->kept : NULL;
    span->journal = span->drafts > 0 ? s->journal : NULL;
  }
  e->batch = (model_batch){.rows = e->rows, .row_count = row_count, .spans = e->spans, .span_count = spans};
  if (e->model.desc.mtp_layers > 0) {
    draft_follow(e);
  }
  e->stage = 0;
  e->stage_us[0] = 0;
  e->stage_us[1] = 0;
  e->logits_rows = 0;
  return SURGE_OK;
}

static void release(surge_engine *e) {
  for (uint32_t i = 0; i < e->batch.span_count; i++) {
    e->sequences[e->rows[e->spans[i].row].sequence].moving = 0;
  }
  e->batch.row_count = 0;
}

static void finish_step(surge_engine *e) {
  for (uint32_t row = 0; row < e->batch.row_count; row++) {
    sequence *s = &e->sequences[e->rows[row].sequence];
    s->tokens[s->length++] = e->rows[row].token;
    if (e->rows[row].flags & SURGE_ROW_LOGITS) {
      e->asked[e->logits_rows++] = e->rows[row];
    }
  }
  for (uint32_t i = 0; i < e->batch.span_count; i++) {
    draft_keep(e, &e->spans[i]);
  }
  e->counters.steps++;
  e->counters.rows += e->batch.row_count;
  release(e);
}

static uint64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* A stage cannot be interrupted: a slice ends before one that would overrun it, as far as the last two tell. */
static int fits_another(const surge_engine *e, uint64_t spent_us, uint64_t budget_us) {
  const uint64_t next_us = e->stage_us[0] > e->stage_us[1] ? e->stage_us[0] : e->stage_us[1];
  return spent_us < budget_us && next_us < budget_us - spent_us;
}

int32_t engine_step_run(surge_engine *e, uint64_t budget_us, uint32_t *ret_done, surge_error *err) {
  const uint64_t start = now_us();
  if (e->batch.row_count == 0) {
    return error_set(err, SURGE_E_ARGUMENT, "no step is under way");
  }
  const int32_t status = pool_enter(e->pool, err);
  if (status < 0) {
    return status;
  }
  *ret_done = 0;
  uint64_t now = start;
  do {
    const model_batch *batch = e->stage < model_mtp_first_stage(&e->model) ? &e->batch : &e->mtp_batch;
    model_forward(&e->model, e->pool, &e->kv, batch, e->stage, &e->counters);
    if (++e->stage == model_stages(&e->model)) {
      finish_step(e);
      *ret_done = 1;
    }
    const uint64_t before = now;
    now = now_us();
    e->stage_us[e->stage % 2] = now - before;
  } while (!*ret_done && fits_another(e, now - start, budget_us));
  pool_leave(e->pool);
  return SURGE_OK;
}

int32_t engine_step_abandon(surge_engine *e, surge_error *err) {
  if (e->batch.row_count == 0) {
    return error_set(err, SURGE_E_ARGUMENT, "no step is under way");
  }
  release(e);
  for (uint32_t i = 0; i < e->batch.span_count; i++) {
    const int32_t status = sequence_close(e, e->rows[e->spans[i].row].sequence, err);
    if (status < 0) {
      return status;
    }
  }
  return SURGE_OK;
}

/* Says which weight is at fault, reading all of them: this ends a run anyway. */
static int32_t blame_weights(surge_engine *e, surge_error *err) {
  const int32_t tensor = store_find_nonfinite(&e->weights, e->row);
  if (tensor < 0) {
    return error_set(err, SURGE_E_NUMERIC, "the logits are not finite although every weight is");
  }
  return error_at(err, SURGE_E_DATA, -1, tensor, "holds a value that is not finite (NaN or infinite)");
}

static int32_t find_logits(const surge_engine *e, uint32_t logits_row, const float **ret_logits, surge_error *err) {
  if (logits_row >= e->logits_rows) {
    return error_set(err, SURGE_E_ARGUMENT, "logits row %u of %u", logits_row, e->logits_rows);
  }
  *ret_logits = e->model.scratch.logits + (size_t)logits_row * e->model.desc.vocab;
  return SURGE_OK;
}

static int32_t check_finite(surge_engine *e, const float *logits, surge_error *err) {
  for (uint32_t i = 0; i < e->model.desc.vocab; i++) {
    if (!isfinite(logits[i])) {
      return blame_weights(e, err);
    }
  }
  return SURGE_OK;
}

int32_t engine_logits(surge_engine *e, uint32_t logits_row, float *ret_logits, uint32_t count, surge_error *err) {
  const float *logits = NULL;
  if (count != e->model.desc.vocab) {
    return error_set(err, SURGE_E_ARGUMENT, "room for %u logits where there are %u", count, e->model.desc.vocab);
  }
  int32_t status = find_logits(e, logits_row, &logits, err);
  if (status == SURGE_OK) {
    status = check_finite(e, logits, err);
  }
  if (status == SURGE_OK) {
    memcpy(ret_logits, logits, count * sizeof(float));
  }
  return status;
}

/* Tokens that the row has seen: rows that may be taken back come after it. A fork samples from its source's rows with all it holds. */
static uint32_t history_of(const surge_engine *e, uint32_t logits_row, uint32_t sequence_index) {
  const surge_row *row = &e->asked[logits_row];
  const uint32_t held = e->sequences[sequence_index].length;
  return row->sequence == sequence_index && row->position < held ? row->position + 1 : held;
}

int32_t engine_sample(surge_engine *e, uint32_t logits_row, uint32_t sequence_index, const surge_sampler_desc *sampler,
                      surge_sample *ret_sample, surge_error *err) {
  const float *logits = NULL;
  int32_t status = find_logits(e, logits_row, &logits, err);
  if (status < 0) {
    return status;
  }
  if (sequence_index >= e->plan.sequences || !e->sequences[sequence_index].open) {
    return error_set(err, SURGE_E_ARGUMENT, "sequence %u is not open", sequence_index);
  }
  const sequence *s = &e->sequences[sequence_index];
  status = sampler_choose(logits, e->model.desc.vocab, s->tokens, history_of(e, logits_row, sequence_index), sampler, &e->sampler, ret_sample, err);
  if (status == SURGE_E_NUMERIC) { /* the weights' fault, if the logits were broken already */
    const int32_t broken = check_finite(e, logits, err);
    return broken < 0 ? broken : status;
  }
  return status;
}
