/*
 * draft.c – guessing tokens ahead with the MTP layer, and taking guesses back.
 *
 * Slot t of the MTP layer's keys and values is made from the hidden state at t and the token at t + 1. Invariant: a sequence of n tokens
 * has slots 0 to n - 2, and `hidden` holds the state at n - 1; guesses write beyond, and the step that feeds the true tokens overwrites them.
 */
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"

static uint32_t kept_rows(const surge_engine *e) { return e->plan.draft_rows + 1; }

void draft_reserve(surge_engine *e, arena *memory) {
  const surge_plan_desc *p = &e->plan;
  const uint32_t hidden = e->model.desc.mtp_layers * e->model.desc.hidden;
  const size_t kept_floats = p->draft_rows > 0 ? model_state_floats(&e->model) : 0;
  for (uint32_t i = 0; i < p->sequences; i++) {
    float *kept = arena_take(memory, kept_floats * sizeof(float), 64);
    float *journal = arena_take(memory, model_journal_floats(&e->model) * sizeof(float), 64);
    float *states = arena_take_array(memory, kept_rows(e), hidden * sizeof(float), 64);
    if (!arena_measuring(memory) && e->sequences != NULL) {
      e->sequences[i].kept = kept;
      e->sequences[i].journal = journal;
      e->sequences[i].hidden = states;
    }
  }
  if (hidden > 0) {
    e->mtp_rows = arena_take(memory, p->step_rows * sizeof(surge_row), _Alignof(surge_row));
    e->mtp_spans = arena_take(memory, p->sequences * sizeof(model_span), _Alignof(model_span));
    e->mtp_hidden = arena_take(memory, p->step_rows * sizeof(float *), _Alignof(float *));
  }
}

/* The hidden state of the sequence's last token. */
static const float *last_hidden(const surge_engine *e, const sequence *s) {
  return s->hidden + (size_t)(s->length - 1 - s->hidden_first) * e->model.desc.hidden;
}

void draft_follow(surge_engine *e) {
  uint32_t rows = 0;
  uint32_t spans = 0;
  for (uint32_t i = 0; i < e->batch.span_count && e->model.desc.mtp_layers > 0; i++) {
    const model_span *span = &e->batch.spans[i];
    const uint32_t first = span->position == 0; /* nothing comes before a sequence's first token */
    if (span->count == first) {
      continue;
    }
    e->mtp_spans[spans++] = (model_span){.row = rows, .count = span->count - first, .position = span->position + first - 1, .pages = span->pages};
    for (uint32_t row = span->row + first; row < span->row + span->count; row++) {
      e->mtp_rows[rows] = e->rows[row];
      e->mtp_rows[rows].position--;
      e->mtp_hidden[rows++] = row == span->row ? last_hidden(e, &e->sequences[e->rows[row].sequence])
                                               : e->model.scratch.hidden + (size_t)(row - 1) * e->model.desc.hidden;
    }
  }
  e->mtp_batch = (model_batch){.rows = e->mtp_rows, .row_count = rows, .spans = e->mtp_spans, .span_count = spans, .hidden = e->mtp_hidden};
}

void draft_keep(surge_engine *e, const model_span *span) {
  sequence *s = &e->sequences[e->rows[span->row].sequence];
  const size_t width = e->model.desc.hidden;
  const uint32_t count = span->count < kept_rows(e) ? span->count : kept_rows(e);
  s->kept_length = span->position;
  s->certain = s->length - span->drafts;
  if (e->model.desc.mtp_layers > 0) {
    s->hidden_first = s->length - count;
    memcpy(s->hidden, e->model.scratch.hidden + (span->row + span->count - count) * width, count * width * sizeof(float));
  }
}

int32_t sequence_rewind(surge_engine *e, uint32_t index, uint32_t length, surge_error *err) {
  sequence *s = sequence_at_rest(e, index, err);
  if (s == NULL) {
    return SURGE_E_ARGUMENT;
  }
  if (e->batch.row_count > 0) {
    return error_set(err, SURGE_E_ARGUMENT, "a step is under way");
  }
  if (length > s->length || length < s->certain) {
    return error_set(err, SURGE_E_ARGUMENT, "sequence %u holds %u tokens and can go back to %u, not to %u", index, s->length, s->certain, length);
  }
  if (length == s->length) {
    return SURGE_OK;
  }
  const int32_t status = pool_enter(e->pool, err);
  if (status < 0) {
    return status;
  }
  float *states = s->kept;
  s->kept = s->states;
  s->states = states;
  const model_span span = {.count = length - s->kept_length, .states = states, .journal = s->journal};
  model_replay(&e->model, e->pool, &span, &e->counters);
  pool_leave(e->pool);
  s->length = length;
  s->certain = length;
  return SURGE_OK;
}

static int32_t check_draft(surge_engine *e, const surge_row *rows, uint32_t row_count, uint32_t count, surge_error *err) {
  uint32_t spans = 0;
  if (e->model.desc.mtp_layers == 0) {
    return error_set(err, SURGE_E_ARGUMENT, "the model has no prediction layer");
  }
  if (row_count > e->plan.logits_rows) {
    return error_set(err, SURGE_E_LIMIT, "%u sequences are to be guessed at where the plan holds logits of %u", row_count, e->plan.logits_rows);
  }
  const int32_t status = step_check(e, rows, row_count, &spans, err);
  if (status < 0) {
    return status;
  }
  for (uint32_t i = 0; i < row_count; i++) {
    const sequence *s = &e->sequences[rows[i].sequence];
    if (spans != row_count || s->length == 0 || count == 0) {
      return error_set(err, SURGE_E_ARGUMENT, "a guess of %u tokens after %u tokens in %u rows of %u sequences", count, s->length, row_count, spans);
    }
    if (count > e->plan.context - s->length) {
      return error_set(err, SURGE_E_CONTEXT, "a guess of %u tokens after %u is past the context of %u tokens", count, s->length, e->plan.context);
    }
  }
  return SURGE_OK;
}

/* The first guess follows what is held: each row's token, with the hidden state before it. */
static void begin_draft(surge_engine *e, const surge_row *rows, uint32_t row_count, uint32_t count) {
  for (uint32_t i = 0; i < row_count; i++) {
    sequence *s = &e->sequences[rows[i].sequence];
    sequence_extend(e, s, count);
    e->mtp_rows[i] = rows[i];
    e->mtp_rows[i].position--;
    e->mtp_spans[i] = (model_span){.row = i, .count = 1, .position = s->length - 1, .pages = s->pages};
    e->mtp_hidden[i] = last_hidden(e, s);
  }
  e->mtp_batch = (model_batch){.rows = e->mtp_rows, .row_count = row_count, .spans = e->mtp_spans, .span_count = row_count, .hidden = e->mtp_hidden};
}

/* Ties to the lowest id, as the sampler's; what is not a number is never the greatest. */
static uint32_t greatest(const float *logits, uint32_t count) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < count; i++) {
    if (logits[i] > logits[best]) {
      best = i;
    }
  }
  return best;
}

/* A guess takes the place of the token, and what the layer says that of the hidden state. */
static void take_guess(surge_engine *e, uint32_t row, uint32_t token) {
  e->mtp_rows[row].token = token;
  e->mtp_rows[row].position++;
  e->mtp_spans[row].position++;
  e->mtp_hidden[row] = e->model.scratch.hidden + (size_t)row * e->model.desc.hidden;
}

int32_t engine_draft(surge_engine *e, const surge_row *rows, uint32_t row_count, uint32_t count, uint32_t *ret_tokens, surge_error *err) {
  int32_t status = check_draft(e, rows, row_count, count, err);
  if (status == SURGE_OK) {
    status = pool_enter(e->pool, err);
  }
  if (status < 0) {
    return status;
  }
  begin_draft(e, rows, row_count, count);
  for (uint32_t guess = 0; guess < count; guess++) {
    for (uint32_t stage = model_mtp_first_stage(&e->model); stage <= model_mtp_head_stage(&e->model); stage++) {
      model_forward(&e->model, e->pool, &e->kv, &e->mtp_batch, stage, &e->counters);
    }
    for (uint32_t row = 0; row < row_count; row++) {
      const uint32_t token = greatest(e->model.scratch.logits + (size_t)row * e->model.desc.vocab, e->model.desc.vocab);
      ret_tokens[(size_t)row * count + guess] = token;
      take_guess(e, row, token);
    }
  }
  pool_leave(e->pool);
  memcpy(e->asked, rows, row_count * sizeof *rows);
  e->logits_rows = row_count;
  return SURGE_OK;
}
