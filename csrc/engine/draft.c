/*
 * draft.c – guessing tokens ahead with the MTP layer, and taking guesses back.
 *
 * Slot t of the MTP layer's keys and values is made from the hidden state at t and the token at t + 1. Nobody needs them before a guess, so
 * they are made late and many at a time: before a guess, where hidden states would find no room, and in the step itself for a span that is
 * longer than that room. Where nothing is guessed the layer then costs little. Invariant: a sequence of n tokens has slots 0 to
 * mtp_slots - 1 <= n - 2, and `hidden` holds the states from hidden_first <= mtp_slots to n - 1. Guesses write slots beyond, which are made
 * again from the true tokens.
 */
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"

/* Hidden states kept beside the last one: where nothing is guessed, the layer is run once in so many tokens. */
enum { LATE_ROWS = 64 };

static uint32_t late_rows(const surge_engine *e) { return e->plan.draft_rows + 1 > LATE_ROWS ? e->plan.draft_rows + 1 : LATE_ROWS; }

void draft_reserve(surge_engine *e, arena *memory) {
  const surge_plan_desc *p = &e->plan;
  const uint32_t hidden = e->model.desc.mtp_layers * e->model.desc.hidden;
  const size_t kept_floats = p->draft_rows > 0 ? model_state_floats(&e->model) : 0;
  for (uint32_t i = 0; i < p->sequences; i++) {
    float *kept = arena_take(memory, kept_floats * sizeof(float), 64);
    float *journal = arena_take(memory, model_journal_floats(&e->model) * sizeof(float), 64);
    float *states = arena_take_array(memory, late_rows(e) + 1, hidden * sizeof(float), 64);
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

static float *hidden_at(const surge_engine *e, const sequence *s, uint32_t position) {
  return s->hidden + (size_t)(position - s->hidden_first) * e->model.desc.hidden;
}

static void clear_batch(surge_engine *e) { e->mtp_batch = (model_batch){.rows = e->mtp_rows, .spans = e->mtp_spans, .hidden = e->mtp_hidden}; }

/* Puts the sequence's slots from `first` on into the batch, as many as it has room for; `hidden` is the state at `first`. Returns how many. */
static uint32_t batch_slots(surge_engine *e, uint32_t index, uint32_t first, uint32_t count, const float *hidden, const uint32_t *tokens) {
  model_batch *batch = &e->mtp_batch;
  const uint32_t room = e->plan.step_rows - batch->row_count;
  const uint32_t taken = count < room ? count : room;
  if (taken > 0) {
    e->mtp_spans[batch->span_count++] =
        (model_span){.row = batch->row_count, .count = taken, .position = first, .pages = e->sequences[index].pages};
  }
  for (uint32_t i = 0; i < taken; i++) {
    e->mtp_hidden[batch->row_count] = hidden + (size_t)i * e->model.desc.hidden;
    e->mtp_rows[batch->row_count++] = (surge_row){.sequence = index, .position = first + i, .token = tokens[i]};
  }
  return taken;
}

/* Makes the slots in the batch, but for its head. */
static void make_slots(surge_engine *e) {
  for (uint32_t stage = model_mtp_first_stage(&e->model); stage < model_mtp_head_stage(&e->model); stage++) {
    model_forward(&e->model, e->pool, &e->kv, &e->mtp_batch, stage, &e->counters);
  }
  clear_batch(e);
}

/* Puts the sequence's late slots into the batch, and makes the batch whenever it is full. */
static void catch_up(surge_engine *e, uint32_t index) {
  sequence *s = &e->sequences[index];
  while (s->mtp_slots + 1 < s->length) {
    const uint32_t first = s->mtp_slots;
    s->mtp_slots += batch_slots(e, index, first, s->length - 1 - first, hidden_at(e, s, first), s->tokens + first + 1);
    if (s->mtp_slots + 1 < s->length) {
      make_slots(e);
    }
  }
}

/* Only the last state is needed once there are no late slots. */
static void forget_hidden(const surge_engine *e, sequence *s) {
  if (s->length > 0) {
    memmove(s->hidden, hidden_at(e, s, s->length - 1), e->model.desc.hidden * sizeof(float));
    s->hidden_first = s->length - 1;
  }
}

/* A span whose slots are made with it: each token with the state before it. Nothing comes before a sequence's first token. */
static void follow_span(surge_engine *e, uint32_t index, const model_span *span) {
  const uint32_t first = span->position == 0;
  const sequence *s = &e->sequences[index];
  model_batch *batch = &e->mtp_batch;
  e->mtp_spans[batch->span_count++] =
      (model_span){.row = batch->row_count, .count = span->count - first, .position = span->position + first - 1, .pages = span->pages};
  for (uint32_t row = span->row + first; row < span->row + span->count; row++) {
    e->mtp_hidden[batch->row_count] = row == span->row ? hidden_at(e, s, s->length - 1)
                                                       : e->model.scratch.hidden + (size_t)(row - 1) * e->model.desc.hidden;
    e->mtp_rows[batch->row_count] = e->rows[row];
    e->mtp_rows[batch->row_count++].position--;
  }
}

void draft_follow(surge_engine *e) {
  const model_batch *batch = &e->batch;
  clear_batch(e);
  for (uint32_t i = 0; i < batch->span_count; i++) {
    const uint32_t index = e->rows[batch->spans[i].row].sequence;
    const sequence *s = &e->sequences[index];
    if (s->length - s->hidden_first + batch->spans[i].count > late_rows(e) + 1) {
      catch_up(e, index);
    }
  }
  make_slots(e);
  for (uint32_t i = 0; i < batch->span_count; i++) {
    const model_span *span = &batch->spans[i];
    const uint32_t index = e->rows[span->row].sequence;
    sequence *s = &e->sequences[index];
    if (s->length - s->hidden_first + span->count > late_rows(e) + 1) {
      forget_hidden(e, s);
    }
    if (span->count > late_rows(e)) {
      follow_span(e, index, span);
    }
  }
}

void draft_keep(surge_engine *e, const model_span *span) {
  sequence *s = &e->sequences[e->rows[span->row].sequence];
  const size_t width = e->model.desc.hidden;
  const float *hidden = e->model.scratch.hidden + span->row * width;
  s->kept_length = span->position;
  s->certain = s->length - span->drafts;
  if (e->model.desc.mtp_layers == 0) {
    return;
  }
  if (span->count > late_rows(e)) {
    s->hidden_first = s->mtp_slots = s->length - 1;
    memcpy(s->hidden, hidden + (span->count - 1) * width, width * sizeof(float));
  } else {
    memcpy(hidden_at(e, s, span->position), hidden, span->count * width * sizeof(float));
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
  s->mtp_slots = s->mtp_slots < length ? s->mtp_slots : length - 1;
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
  clear_batch(e);
  for (uint32_t i = 0; i < row_count; i++) {
    sequence_extend(e, &e->sequences[rows[i].sequence], count);
    catch_up(e, rows[i].sequence);
  }
  make_slots(e);
  for (uint32_t i = 0; i < row_count; i++) {
    const sequence *s = &e->sequences[rows[i].sequence];
    batch_slots(e, rows[i].sequence, s->length - 1, 1, hidden_at(e, s, s->length - 1), &rows[i].token);
  }
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
