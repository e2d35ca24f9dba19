/* sampler_test.c – choices computed by hand, ties, penalties, cuts and the distribution of draws. Breaks when an order or a bound is wrong. */
#include <stdlib.h>

#include "check.h"
#include "sample/sampler.h"

enum { VOCAB = 8 };

enum { LARGE = 3001 };

static sampler_candidate candidates[LARGE];
static float untouched[LARGE];
static uint32_t counts[LARGE];
static float logits_copy[LARGE];
static sampler_scratch scratch = {candidates, logits_copy, untouched, counts};

static surge_sampler_desc settings(void) {
  return (surge_sampler_desc){.struct_size = sizeof(surge_sampler_desc), .temperature = 1, .top_p = 1, .repeat_penalty = 1, .want_logprob = 1};
}

static int32_t choose(const float *logits, const uint32_t *history, uint32_t count, const surge_sampler_desc *s, surge_sample *ret) {
  float copy[VOCAB];
  surge_error err = {.struct_size = sizeof err};
  memcpy(copy, logits, sizeof copy);
  return sampler_choose(copy, VOCAB, history, count, s, &scratch, ret, &err);
}

static const float RISING[VOCAB] = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(greedy_takes_the_lowest_of_equals) {
  const float flat[VOCAB] = {1, 3, 3, 3, 0, 3, 2, 1};
  surge_sampler_desc s = settings();
  surge_sample sample;
  s.temperature = 0;
  CHECK_EQ(choose(flat, NULL, 0, &s, &sample), SURGE_OK);
  CHECK_EQ(sample.token, 1);
}

TEST(cuts_leave_what_they_should) {
  surge_sampler_desc s = settings();
  surge_sample sample;
  for (uint64_t draw = 0; draw < 2000; draw++) {
    s = settings();
    s.draw = draw;
    s.temperature = 50; /* nearly flat: every candidate that is left will come */
    s.top_k = 2;
    choose(RISING, NULL, 0, &s, &sample);
    CHECK(sample.token >= 6);
    s.top_k = 0;
    s.temperature = 1;
    s.min_p = 0.3f; /* exp(-1) = 0.37 stays, exp(-2) = 0.14 goes */
    choose(RISING, NULL, 0, &s, &sample);
    CHECK(sample.token >= 6);
    s.min_p = 0;
    s.top_p = 0.8f; /* 0.632 + 0.233 reaches it */
    choose(RISING, NULL, 0, &s, &sample);
    CHECK(sample.token >= 6);
  }
}

TEST(draws_follow_the_distribution) {
  const float logits[VOCAB] = {0, 0.6931472f, -100, -100, -100, -100, -100, -100}; /* 1 : 2 */
  surge_sampler_desc s = settings();
  surge_sample sample;
  int first = 0;
  for (s.draw = 0; s.draw < 30000; s.draw++) {
    choose(logits, NULL, 0, &s, &sample);
    first += sample.token == 0;
  }
  /* 10000 expected, standard deviation 82; fixed seed, so this cannot flicker. */
  CHECK(abs(first - 10000) < 330);
}

TEST(penalties_and_bias) {
  const uint32_t history[] = {7, 6, 6};
  surge_sampler_desc s = settings();
  surge_sample sample;
  s.temperature = 0;
  s.presence_penalty = 1.5f; /* 7 -> 5.5, 6 -> 4.5, 5 stays */
  choose(RISING, history, 3, &s, &sample);
  CHECK_EQ(sample.token, 7);
  s.frequency_penalty = 1; /* 7 -> 4.5, 6 -> 2.5 */
  choose(RISING, history, 3, &s, &sample);
  CHECK_EQ(sample.token, 5);
  s.answer_from = 3; /* the history is all prompt: penalties of the answer do not count */
  choose(RISING, history, 3, &s, &sample);
  CHECK_EQ(sample.token, 7);
  s.repeat_penalty = 2; /* 7 -> 3.5, 6 -> 3: once each, the whole history */
  choose(RISING, history, 3, &s, &sample);
  CHECK_EQ(sample.token, 5);
  const surge_logit_bias bias = {2, 100};
  s = settings();
  s.temperature = 0;
  s.biases = (uint64_t)(uintptr_t)&bias;
  s.bias_count = 1;
  choose(RISING, NULL, 0, &s, &sample);
  CHECK_EQ(sample.token, 2);
  CHECK(sample.logprob < -5); /* of the untouched logits */
  for (int i = 0; i < VOCAB; i++) {
    CHECK_EQ(counts[i], 0);
  }
}

TEST(refusals) {
  surge_sampler_desc s = settings();
  surge_sample sample;
  const float nothing[VOCAB] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  CHECK_EQ(choose(nothing, NULL, 0, &s, &sample), SURGE_E_NUMERIC);
  s.top_p = 0;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_E_ARGUMENT);
  s = settings();
  s.temperature = NAN;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_E_ARGUMENT);
  s = settings();
  s.top_logprobs = SURGE_TOP_LOGPROBS_MAX + 1;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_E_ARGUMENT);
  s = settings();
  s.bias_count = SURGE_LOGIT_BIAS_MAX + 1;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_E_ARGUMENT);
  const surge_logit_bias past = {VOCAB, 1};
  s.biases = (uint64_t)(uintptr_t)&past;
  s.bias_count = 1;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_E_ARGUMENT);
  s.biases = 0;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_E_ARGUMENT);
}

TEST(not_finite_is_named) {
  surge_error err = {.struct_size = sizeof err};
  surge_sampler_desc s = settings();
  surge_sample sample;
  const float bad[] = {NAN, INFINITY};
  for (int i = 0; i < 2; i++) {
    float logits[VOCAB] = {0, 1, 2, 3, 4, bad[i], 6, 7};
    CHECK_EQ(sampler_choose(logits, VOCAB, NULL, 0, &s, &scratch, &sample, &err), SURGE_E_NUMERIC);
    CHECK(strstr(err.message, "token 5") != NULL);
  }
  const surge_logit_bias bias = {3, INFINITY};
  float logits[VOCAB] = {0};
  s.biases = (uint64_t)(uintptr_t)&bias;
  s.bias_count = 1;
  CHECK_EQ(sampler_choose(logits, VOCAB, NULL, 0, &s, &scratch, &sample, &err), SURGE_E_NUMERIC);
  CHECK(strstr(err.message, "token 3") != NULL);
}

TEST(masked_tokens_never_come) {
  const float logits[VOCAB] = {-INFINITY, 0, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  surge_sampler_desc s = settings();
  surge_sample sample;
  int first = 0;
  s.top_logprobs = 5;
  for (s.draw = 0; s.draw < 1000; s.draw++) {
    CHECK_EQ(choose(logits, NULL, 0, &s, &sample), SURGE_OK);
    CHECK(sample.token == 1 || sample.token == 3);
    first += sample.token == 1;
  }
  CHECK(first > 400 && first < 600);
  CHECK_EQ(sample.top_count, 2); /* what is ruled out has no logarithm to report */
  CHECK_NEAR(sample.logprob, log(0.5), 1e-6);
}

/* What the choice must be, the slow way: every token sorted by repeated search. */
static uint32_t naive_choice(const float *logits, const surge_sampler_desc *s) {
  static double weights[LARGE];
  static uint32_t order[LARGE];
  static uint8_t taken[LARGE];
  double total = 0;
  memset(taken, 0, sizeof taken);
  for (uint32_t place = 0; place < LARGE; place++) {
    uint32_t best = LARGE;
    for (uint32_t i = 0; i < LARGE; i++) {
      if (!taken[i] && (best == LARGE || logits[i] > logits[best])) {
        best = i;
      }
    }
    taken[best] = 1;
    order[place] = best;
    weights[place] = exp(((double)logits[best] - (double)logits[order[0]]) / (double)s->temperature);
  }
  uint32_t kept = s->top_k > 0 ? s->top_k : LARGE;
  for (uint32_t i = 0; i < kept; i++) {
    total += weights[i];
  }
  double sum = 0;
  uint32_t head = 0;
  while (head < kept && (head == 0 || s->top_p >= 1 || sum < (double)s->top_p * total)) {
    sum += weights[head++];
  }
  while (head > 1 && weights[head - 1] < (double)s->min_p) {
    sum -= weights[--head];
  }
  double left = sampler_uniform(s->seed, s->draw) * sum;
  uint32_t place = 0;
  while (place + 1 < head && (left -= weights[place]) >= 0) {
    place++;
  }
  return order[place];
}

TEST(large_vocabularies_are_cut_as_a_full_sort_would) {
  static float logits[LARGE];
  static float copy[LARGE];
  const surge_sampler_desc cuts[] = {{.top_k = 0, .top_p = 1},    {.top_k = 20, .top_p = 0.95f}, {.top_k = 0, .top_p = 0.9f},
                                     {.top_p = 1, .min_p = 0.2f}, {.top_k = 2999, .top_p = 1},   {.top_k = 50, .top_p = 0.8f, .min_p = 0.1f}};
  for (uint32_t i = 0; i < LARGE; i++) {
    logits[i] = (float)(int)(sampler_uniform(11, i) * 64) / 8; /* eighths: plenty of equals */
  }
  for (uint32_t i = 0; i < 6 * 8; i++) {
    surge_sampler_desc s = cuts[i % 6];
    surge_sample sample;
    s.struct_size = sizeof s;
    s.temperature = 0.7f;
    s.repeat_penalty = 1;
    s.seed = i;
    memcpy(copy, logits, sizeof copy);
    REQUIRE(sampler_choose(copy, LARGE, NULL, 0, &s, &scratch, &sample, NULL) == SURGE_OK);
    CHECK_EQ(sample.token, naive_choice(logits, &s));
  }
}

TEST(extremes) {
  const float far[VOCAB] = {3e38f, -3e38f, 0, 0, 0, 0, 0, 0};
  surge_sampler_desc s = settings();
  surge_sample sample;
  CHECK_EQ(choose(far, NULL, 0, &s, &sample), SURGE_OK);
  CHECK_EQ(sample.token, 0);
  CHECK_EQ(sample.logprob, 0);
  s.temperature = 1e-30f; /* all weight on the best */
  for (s.draw = 0; s.draw < 100; s.draw++) {
    CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_OK);
    CHECK_EQ(sample.token, 7);
  }
  s = settings();
  s.top_k = UINT32_MAX;
  CHECK_EQ(choose(RISING, NULL, 0, &s, &sample), SURGE_OK);
}

TEST(history_past_the_vocabulary_is_ignored) {
  const uint32_t history[] = {UINT32_MAX, VOCAB, 7};
  surge_sampler_desc s = settings();
  surge_sample sample;
  s.temperature = 0;
  s.repeat_penalty = 2;
  s.presence_penalty = 1;
  s.frequency_penalty = 1;
  CHECK_EQ(choose(RISING, history, 3, &s, &sample), SURGE_OK);
  CHECK_EQ(sample.token, 6);
}

TEST(top_logprobs_are_sorted_and_untouched) {
  surge_sampler_desc s = settings();
  surge_sample sample;
  s.top_logprobs = 3;
  choose(RISING, NULL, 0, &s, &sample);
  CHECK_EQ(sample.top_count, 3);
  CHECK(sample.top_tokens[0] == 7 && sample.top_tokens[1] == 6 && sample.top_tokens[2] == 5);
  CHECK(fabsf(sample.top_logprobs[0] - sample.top_logprobs[1] - 1.0f) < 1e-5f);
}

int main(void) {
  RUN(greedy_takes_the_lowest_of_equals);
  RUN(cuts_leave_what_they_should);
  RUN(draws_follow_the_distribution);
  RUN(penalties_and_bias);
  RUN(refusals);
  RUN(not_finite_is_named);
  RUN(masked_tokens_never_come);
  RUN(large_vocabularies_are_cut_as_a_full_sort_would);
  RUN(extremes);
  RUN(history_past_the_vocabulary_is_ignored);
  RUN(top_logprobs_are_sorted_and_untouched);
  return check_done();
}
