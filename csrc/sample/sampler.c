/* sampler.c – see sampler.h. Probabilities in float64 and in a fixed order; exp is libm's, so another libm could move a draw that falls on a last bit. */
#include "sample/sampler.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

void sampler_reserve(sampler_scratch *scratch, uint32_t vocab, arena *memory) {
  scratch->candidates = arena_take(memory, vocab * sizeof(sampler_candidate), _Alignof(sampler_candidate));
  scratch->logits = arena_take(memory, vocab * sizeof(float), 64);
  scratch->untouched = arena_take(memory, vocab * sizeof(float), 64);
  scratch->counts = arena_take(memory, vocab * sizeof(uint32_t), _Alignof(uint32_t));
}

static uint64_t mix64(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double sampler_uniform(uint64_t seed, uint64_t draw) {
  const uint64_t golden = 0x9e3779b97f4a7c15u;
  return (double)(mix64(mix64(seed + golden) + (draw + 1) * golden) >> 11) * 0x1p-53;
}

static int32_t check(const surge_sampler_desc *s, uint32_t vocab, surge_error *err) {
  if (s->struct_size != sizeof *s || !(s->temperature >= 0 && s->temperature <= 100) || !(s->top_p > 0 && s->top_p <= 1) ||
      !(s->min_p >= 0 && s->min_p <= 1) || !(s->repeat_penalty > 0 && s->repeat_penalty <= 100) || !(fabsf(s->presence_penalty) <= 100) ||
      !(fabsf(s->frequency_penalty) <= 100) || s->top_logprobs > SURGE_TOP_LOGPROBS_MAX || s->bias_count > SURGE_LOGIT_BIAS_MAX ||
      (s->bias_count > 0 && s->biases == 0)) {
    return error_set(err, SURGE_E_ARGUMENT, "a sampling setting is out of range");
  }
  const surge_logit_bias *biases = (const surge_logit_bias *)(uintptr_t)s->biases;
  for (uint32_t i = 0; i < s->bias_count; i++) {
    if (biases[i].token >= vocab || isnan(biases[i].bias)) {
      return error_set(err, SURGE_E_ARGUMENT, "a logit bias names token %u of a vocabulary of %u", biases[i].token, vocab);
    }
  }
  return SURGE_OK;
}

static double log_sum_exp(const float *logits, uint32_t vocab, double maximum) {
  double sum = 0;
  for (uint32_t i = 0; i < vocab; i++) {
    sum += exp((double)logits[i] - maximum);
  }
  return maximum + log(sum);
}

/* Comparisons side by side, none waiting for the one before: this runs once per token over the whole vocabulary. */
static float largest(const float *logits, uint32_t count) {
  float most[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; j++) {
      most[j] = logits[i + j] > most[j] ? logits[i + j] : most[j];
    }
  }
  for (uint32_t j = 0; j < 8; j++) {
    most[0] = most[j] > most[0] ? most[j] : most[0];
  }
  for (; i < count; i++) {
    most[0] = logits[i] > most[0] ? logits[i] : most[0];
  }
  return most[0];
}

/* The lowest token with the largest logit; none may be NaN. */
static uint32_t argmax(const float *logits, uint32_t vocab) {
  enum { BLOCK = 1024 };
  uint32_t best = 0; /* the block's first token */
  float most = -INFINITY;
  for (uint32_t first = 0; first < vocab; first += BLOCK) {
    const float here = largest(logits + first, vocab - first < BLOCK ? vocab - first : BLOCK);
    if (here > most) {
      most = here;
      best = first;
    }
  }
  while (logits[best] != most) { /* at most a block: it holds `most`, or all are -infinity */
    best++;
  }
  return best;
}

/* Largest logit first, lowest token first among equals: a total order, so the result does not depend on how it is found. */
static int before(const sampler_candidate *a, const sampler_candidate *b) {
  return a->logit > b->logit || (!(a->logit < b->logit) && a->token < b->token);
}

static void sink(sampler_candidate *heap, uint32_t root, uint32_t count) {
  const sampler_candidate moving = heap[root];
  for (uint64_t child = 2 * (uint64_t)root + 1; child < count; child = 2 * (uint64_t)root + 1) {
    child += child + 1 < count && before(&heap[child + 1], &heap[child]);
    if (!before(&heap[child], &moving)) {
      break;
    }
    heap[root] = heap[child];
    root = (uint32_t)child;
  }
  heap[root] = moving;
}

/*
 * Candidates of which only the head is put in order, as far as somebody asks: a heap in front, the ranked ones behind it, best last.
 * A vocabulary of 250,000 is never sorted for the sake of the twenty tokens that matter, and nothing is allocated as qsort would.
 */
typedef struct ranking {
  sampler_candidate *items;
  uint32_t count, ranked;
} ranking;

static ranking rank_logits(const float *logits, uint32_t vocab, sampler_candidate *items) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < vocab; i++) {
    if (logits[i] > -INFINITY) {
      items[count++] = (sampler_candidate){.token = i, .logit = logits[i]};
    }
  }
  for (uint32_t root = count / 2; root > 0; root--) {
    sink(items, root - 1, count);
  }
  return (ranking){items, count, 0};
}

/* The candidate at `place`, 0 the best. */
static const sampler_candidate *rank_at(ranking *r, uint32_t place) {
  while (r->ranked <= place) {
    const uint32_t left = r->count - r->ranked - 1;
    const sampler_candidate best = r->items[0];
    r->items[0] = r->items[left];
    r->items[left] = best;
    sink(r->items, 0, left);
    r->ranked++;
  }
  return &r->items[r->count - 1 - place];
}

static void report_top(const float *logits, uint32_t vocab, uint32_t count, double log_sum, sampler_candidate *items, surge_sample *ret) {
  ranking r = rank_logits(logits, vocab, items);
  ret->top_count = count < r.count ? count : r.count;
  for (uint32_t i = 0; i < ret->top_count; i++) {
    const sampler_candidate *c = rank_at(&r, i);
    ret->top_tokens[i] = c->token;
    ret->top_logprobs[i] = (float)((double)c->logit - log_sum);
  }
}

static void apply_repeat(float *logits, uint32_t vocab, const uint32_t *history, uint32_t count, float penalty, uint32_t *seen) {
  for (uint32_t i = 0; i < count && penalty != 1.0f; i++) {
    const uint32_t token = history[i];
    if (token < vocab && seen[token]++ == 0) {
      logits[token] = logits[token] > 0 ? logits[token] / penalty : logits[token] * penalty;
    }
  }
  for (uint32_t i = 0; i < count && penalty != 1.0f; i++) {
    if (history[i] < vocab) {
      seen[history[i]] = 0;
    }
  }
}

/* Penalties of the OpenAI API: presence once, frequency for each time a token stands in the answer. */
static void apply_answer(float *logits, uint32_t vocab, const uint32_t *answer, uint32_t count, const surge_sampler_desc *s) {
  for (uint32_t i = 0; i < count; i++) {
    if (answer[i] < vocab) {
      logits[answer[i]] -= s->frequency_penalty;
    }
  }
}

static void apply_presence(float *logits, uint32_t vocab, const uint32_t *answer, uint32_t count, float penalty, uint32_t *seen) {
  for (uint32_t i = 0; i < count; i++) {
    if (answer[i] < vocab && seen[answer[i]]++ == 0) {
      logits[answer[i]] -= penalty;
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    if (answer[i] < vocab) {
      seen[answer[i]] = 0;
    }
  }
}

static void apply_settings(float *logits, uint32_t vocab, const uint32_t *history, uint32_t count, const surge_sampler_desc *s,
                           sampler_scratch *scratch) {
  const surge_logit_bias *biases = (const surge_logit_bias *)(uintptr_t)s->biases;
  const uint32_t from = s->answer_from < count ? s->answer_from : count;
  for (uint32_t i = 0; i < s->bias_count; i++) {
    logits[biases[i].token] += biases[i].bias;
  }
  apply_repeat(logits, vocab, history, count, s->repeat_penalty, scratch->counts);
  if (s->frequency_penalty != 0) {
    apply_answer(logits, vocab, history + from, count - from, s);
  }
  if (s->presence_penalty != 0) {
    apply_presence(logits, vocab, history + from, count - from, s->presence_penalty, scratch->counts);
  }
}

static double weight(const sampler_candidate *c, double best, const surge_sampler_desc *s) {
  return exp(((double)c->logit - best) / (double)s->temperature);
}

/* Weight of the first `count` candidates; of all of them it needs no order and is summed as the heap lies, which is fixed too. */
static double total_weight(ranking *r, uint32_t count, double best, const surge_sampler_desc *s) {
  double total = 0;
  for (uint32_t i = 0; i < count; i++) {
    total += weight(count == r->count ? &r->items[i] : rank_at(r, i), best, s);
  }
  return total;
}

/*
 * Top-k, then the shortest head that holds top_p of the weight, then those of at least min_p of the first. Returns how many are left
 * and their weight.
 */
static uint32_t cut(ranking *r, double best, const surge_sampler_desc *s, double *ret_total) {
  const uint32_t limit = s->top_k > 0 && s->top_k < r->count ? s->top_k : r->count;
  const double total = total_weight(r, limit, best, s);
  if (s->top_p >= 1.0f && s->min_p <= 0.0f) {
    *ret_total = total;
    return limit;
  }
  const double enough = s->top_p >= 1.0f ? INFINITY : (double)s->top_p * total;
  double sum = 0;
  uint32_t kept = 0;
  while (kept < limit && (kept == 0 || sum < enough)) {
    const double next = weight(rank_at(r, kept), best, s);
    if (kept > 0 && next < (double)s->min_p) {
      break;
    }
    sum += next;
    kept++;
  }
  *ret_total = sum;
  return kept;
}

static uint32_t draw(const float *logits, uint32_t vocab, const surge_sampler_desc *s, sampler_candidate *items) {
  ranking r = rank_logits(logits, vocab, items);
  const double best = (double)r.items[0].logit;
  double total = 0;
  const uint32_t kept = cut(&r, best, s, &total);
  double left = sampler_uniform(s->seed, s->draw) * total;
  uint32_t place = 0;
  while (place + 1 < kept && (left -= weight(rank_at(&r, place), best, s)) >= 0) {
    place++;
  }
  return rank_at(&r, place)->token;
}

/* NaN and +infinity leave no distribution: they come from a broken weight, or from a bias or penalty past the range of a float. */
static int32_t check_logits(const float *logits, uint32_t vocab, surge_error *err) {
  uint32_t broken = 0;
  uint32_t open = 0;
  for (uint32_t i = 0; i < vocab; i++) {
    broken |= !(logits[i] < INFINITY);
    open |= logits[i] > -INFINITY;
  }
  if (!broken) {
    return open ? SURGE_OK : error_set(err, SURGE_E_NUMERIC, "every token is ruled out");
  }
  uint32_t token = 0;
  while (logits[token] < INFINITY) {
    token++;
  }
  return error_set(err, SURGE_E_NUMERIC, "the logit of token %u is not finite", token);
}

/* Nothing but the likeliest token is asked for, of logits as they are. */
static int is_plain(const surge_sampler_desc *s) {
  return s->temperature == 0 && s->bias_count == 0 && s->repeat_penalty == 1.0f && s->presence_penalty == 0 && s->frequency_penalty == 0 &&
         s->top_logprobs == 0 && !s->want_logprob;
}

static int32_t choose(float *logits, uint32_t vocab, const uint32_t *history, uint32_t history_count, const surge_sampler_desc *s,
                      sampler_scratch *scratch, surge_sample *ret_sample, surge_error *err) {
  const int reports = s->want_logprob || s->top_logprobs > 0;
  const double log_sum = reports ? log_sum_exp(logits, vocab, (double)logits[argmax(logits, vocab)]) : 0;
  if (s->top_logprobs > 0) {
    report_top(logits, vocab, s->top_logprobs, log_sum, scratch->candidates, ret_sample);
  }
  if (reports) {
    memcpy(scratch->untouched, logits, vocab * sizeof(float));
  }
  apply_settings(logits, vocab, history, history_count, s, scratch);
  const int32_t status = check_logits(logits, vocab, err);
  if (status < 0) {
    return status;
  }
  ret_sample->token = s->temperature > 0 ? draw(logits, vocab, s, scratch->candidates) : argmax(logits, vocab);
  ret_sample->logprob = reports ? (float)((double)scratch->untouched[ret_sample->token] - log_sum) : 0;
  return SURGE_OK;
}

int32_t sampler_choose(const float *logits, uint32_t vocab, const uint32_t *history, uint32_t history_count, const surge_sampler_desc *s,
                       sampler_scratch *scratch, surge_sample *ret_sample, surge_error *err) {
  int32_t status = check(s, vocab, err);
  if (status == SURGE_OK) {
    status = check_logits(logits, vocab, err);
  }
  if (status < 0) {
    return status;
  }
  *ret_sample = (surge_sample){.struct_size = sizeof *ret_sample};
  if (is_plain(s)) {
    ret_sample->token = argmax(logits, vocab);
    return SURGE_OK;
  }
  memcpy(scratch->logits, logits, vocab * sizeof(float));
  return choose(scratch->logits, vocab, history, history_count, s, scratch, ret_sample, err);
}
