/* sequence.c – opening, forking and closing sequences, and their pages. See engine.h for the invariant. */
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"

sequence *sequence_at_rest(surge_engine *e, uint32_t index, surge_error *err) {
  if (index >= e->plan.sequences || !e->sequences[index].open) {
    error_set(err, SURGE_E_ARGUMENT, "sequence %u is not open", index);
    return NULL;
  }
  if (e->sequences[index].moving) {
    error_set(err, SURGE_E_ARGUMENT, "sequence %u is in the step that is under way", index);
    return NULL;
  }
  return &e->sequences[index];
}

int32_t sequence_open(surge_engine *e, uint32_t *ret_sequence, surge_error *err) {
  for (uint32_t i = 0; i < e->plan.sequences; i++) {
    sequence *s = &e->sequences[i];
    if (!s->open) {
      s->open = 1;
      s->length = 0;
      s->page_count = 0;
      s->certain = 0;
      s->hidden_first = 0;
      s->mtp_slots = 0;
      memset(s->states, 0, model_state_floats(&e->model) * sizeof(float));
      *ret_sequence = i;
      return SURGE_OK;
    }
  }
  return error_set(err, SURGE_E_LIMIT, "all %u sequences are in use", e->plan.sequences);
}

int32_t sequence_fork(surge_engine *e, uint32_t from, uint32_t *ret_sequence, surge_error *err) {
  const sequence *source = sequence_at_rest(e, from, err);
  if (source == NULL) {
    return SURGE_E_ARGUMENT;
  }
  const int32_t status = sequence_open(e, ret_sequence, err);
  if (status < 0) {
    return status;
  }
  sequence *s = &e->sequences[*ret_sequence];
  s->length = source->length;
  s->page_count = source->page_count;
  s->certain = source->length;
  memcpy(s->tokens, source->tokens, source->length * sizeof(uint32_t));
  memcpy(s->states, source->states, model_state_floats(&e->model) * sizeof(float));
  if (e->model.desc.mtp_layers > 0) {
    const size_t rows = (size_t)source->length - source->hidden_first;
    memcpy(s->hidden, source->hidden, rows * e->model.desc.hidden * sizeof(float));
    s->hidden_first = source->hidden_first;
    s->mtp_slots = source->mtp_slots;
  }
  for (uint32_t i = 0; i < source->page_count; i++) {
    s->pages[i] = source->pages[i];
    kv_share(&e->kv, source->pages[i]);
  }
  return SURGE_OK;
}

int32_t sequence_close(surge_engine *e, uint32_t index, surge_error *err) {
  sequence *s = sequence_at_rest(e, index, err);
  if (s == NULL) {
    return SURGE_E_ARGUMENT;
  }
  for (uint32_t i = 0; i < s->page_count; i++) {
    kv_release(&e->kv, s->pages[i]);
  }
  s->open = 0;
  return SURGE_OK;
}

void sequence_extend(surge_engine *e, sequence *s, uint32_t count) {
  if (model_kv_layers(&e->model) == 0) {
    return;
  }
  /* Pages from the first position that is written on may be shared with a fork; those before it are never written again. */
  const uint32_t first = e->model.desc.mtp_layers > 0 ? s->mtp_slots : s->length;
  for (uint32_t i = first / KV_BLOCK; i < s->page_count; i++) {
    s->pages[i] = kv_own(&e->kv, s->pages[i]);
  }
  while (s->page_count < kv_pages_for(s->length + count)) {
    s->pages[s->page_count++] = kv_take(&e->kv);
  }
}
