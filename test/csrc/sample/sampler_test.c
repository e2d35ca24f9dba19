/* sampler_test.c – choices computed by hand, ties, penalties, cuts and the distribution of draws. Breaks when an order or a bound is wrong. */
#include <stdlib.h>

#include "check.h"
#include "sample/sampler.h"

enum { VOCAB = 8 };

static sampler_candidate candidates[VOCAB];
static float untouched[VOCAB];
static uint32_t counts[VOCAB];
static sampler_scratch scratch = {candidates, untouched, counts};

static surge_sampler_desc settings(void) {
  return (surge_sampler_desc){.struct_size = sizeof(surge_sampler_desc), .temperature = 1, .top_p = 1, .repeat_penalty = 1};
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
  RUN(top_logprobs_are_sorted_and_untouched);
  return check_done();
}
