/* sampler.c – see sampler.h. Probabilities in float64 and in a fixed order, so that every machine draws the same token. */
#include "sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void sampler_reserve(sampler_scratch *scratch, uint32_t vocab, arena *memory) {
  scratch->candidates = arena_take(memory, vocab * sizeof(sampler_candidate), _Alignof(sampler_candidate));
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
      !(fabsf(s->frequency_penalty) <= 100) || s->top_logprobs > SURGE_TOP_LOGPROBS_MAX || s->bias_count > SURGE_LOGIT_BIAS_MAX) {
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

static uint32_t argmax(const float *logits, uint32_t vocab) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < vocab; i++) {
    if (logits[i] > logits[best]) {
      best = i;
    }
  }
  return best;
}

/* Largest logit first, lowest token first among equals: a total order, so the result does not depend on the sort. */
static int before(const sampler_candidate *a, const sampler_candidate *b) {
  return a->logit > b->logit || (!(a->logit < b->logit) && a->token < b->token);
}

static int compare(const void *a, const void *b) { return before(a, b) ? -1 : (before(b, a) ? 1 : 0); }

/* Keeps the `count` first candidates (in any order) by quickselect, so that a large vocabulary is not sorted. */
static void keep_best(sampler_candidate *c, uint32_t total, uint32_t count) {
  uint32_t low = 0;
  uint32_t high = total;
  while (high - low > 1) {
    const sampler_candidate pivot = c[low + (high - low) / 2];
    uint32_t i = low;
    uint32_t j = high - 1;
    while (i <= j) {
      while (before(&c[i], &pivot)) {
        i++;
      }
      while (before(&pivot, &c[j])) {
        j--;
      }
      if (i <= j) {
        const sampler_candidate swap = c[i];
        c[i++] = c[j];
        c[j] = swap;
        if (j == 0) {
          break;
        }
        j--;
      }
    }
    if (count <= j) {
      high = j + 1;
    } else if (count >= i) {
      low = i;
    } else {
      return;
    }
    if (count <= low) {
      return;
    }
  }
}

static void report_top(const float *logits, uint32_t vocab, uint32_t count, double log_sum, sampler_candidate *c, surge_sample *ret) {
  for (uint32_t i = 0; i < vocab; i++) {
    c[i] = (sampler_candidate){.token = i, .logit = logits[i]};
  }
  count = count < vocab ? count : vocab;
  keep_best(c, vocab, count);
  qsort(c, count, sizeof *c, compare);
  ret->top_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ret->top_tokens[i] = c[i].token;
    ret->top_logprobs[i] = (float)((double)c[i].logit - log_sum);
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

/* Sorted candidates with weights exp((logit - max) / temperature); returns how many top-k leaves. */
static uint32_t list_candidates(const float *logits, uint32_t vocab, const surge_sampler_desc *s, sampler_candidate *c) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < vocab; i++) {
    if (logits[i] > -INFINITY) {
      c[count++] = (sampler_candidate){.token = i, .logit = logits[i]};
    }
  }
  if (s->top_k > 0 && s->top_k < count) {
    keep_best(c, count, s->top_k);
    count = s->top_k;
  }
  qsort(c, count, sizeof *c, compare);
  for (uint32_t i = 0; i < count; i++) {
    c[i].weight = exp(((double)c[i].logit - (double)c[0].logit) / (double)s->temperature);
  }
  return count;
}

/* The shortest head of the list that holds top_p of the weight, then those of at least min_p of the first. */
static uint32_t cut_candidates(const sampler_candidate *c, uint32_t count, const surge_sampler_desc *s) {
  double total = 0;
  for (uint32_t i = 0; i < count; i++) {
    total += c[i].weight;
  }
  double sum = 0;
  uint32_t kept = 0;
  while (kept < count && (kept == 0 || s->top_p >= 1.0f || sum < (double)s->top_p * total)) {
    sum += c[kept++].weight;
  }
  while (kept > 1 && c[kept - 1].weight < (double)s->min_p) {
    kept--;
  }
  return kept;
}

static uint32_t draw(const sampler_candidate *c, uint32_t count, double uniform) {
  double total = 0;
  for (uint32_t i = 0; i < count; i++) {
    total += c[i].weight;
  }
  double left = uniform * total;
  for (uint32_t i = 0; i + 1 < count; i++) {
    left -= c[i].weight;
    if (left < 0) {
      return c[i].token;
    }
  }
  return c[count - 1].token;
}

int32_t sampler_choose(float *logits, uint32_t vocab, const uint32_t *history, uint32_t history_count, const surge_sampler_desc *s,
                       sampler_scratch *scratch, surge_sample *ret_sample, surge_error *err) {
  const int32_t status = check(s, vocab, err);
  if (status < 0) {
    return status;
  }
  const uint32_t best = argmax(logits, vocab);
  const double log_sum = log_sum_exp(logits, vocab, (double)logits[best]);
  *ret_sample = (surge_sample){.struct_size = sizeof *ret_sample};
  if (s->top_logprobs > 0) {
    report_top(logits, vocab, s->top_logprobs, log_sum, scratch->candidates, ret_sample);
  }
  memcpy(scratch->untouched, logits, vocab * sizeof(float));
  apply_settings(logits, vocab, history, history_count, s, scratch);
  uint32_t token = argmax(logits, vocab);
  if (!(logits[token] > -INFINITY)) {
    return error_set(err, SURGE_E_NUMERIC, "every token is ruled out");
  }
  if (s->temperature > 0) {
    const uint32_t count = list_candidates(logits, vocab, s, scratch->candidates);
    token = draw(scratch->candidates, cut_candidates(scratch->candidates, count, s), sampler_uniform(s->seed, s->draw));
  }
  ret_sample->token = token;
  ret_sample->logprob = (float)((double)scratch->untouched[token] - log_sum);
  return SURGE_OK;
}
