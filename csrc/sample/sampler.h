/*
 * sampler.h – from logits to the next token: bias, penalties, temperature, top-k, top-p, min-p, draw.
 *
 * Stateless: the random number is a function of (seed, draw), so the same seed gives the same text whatever ran in between. No
 * allocation in a call. Order: logit bias, repeat penalty, presence and frequency penalty, greedy choice at temperature 0;
 * otherwise temperature, top-k, top-p, min-p, draw.
 */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "base/arena.h"
#include "surge.h"

typedef struct sampler_candidate {
  uint32_t token;
  float logit;
} sampler_candidate;

typedef struct sampler_scratch {
  sampler_candidate *candidates; /* [vocab] */
  float *logits, *untouched;     /* [vocab] */
  uint32_t *counts;              /* [vocab], zero between calls */
} sampler_scratch;

void sampler_reserve(sampler_scratch *scratch, uint32_t vocab, arena *memory);
/*
 * Chooses from logits[vocab]; -infinity rules a token out. history: the sequence's tokens.
 * E_ARGUMENT for settings out of range; E_NUMERIC for NaN or +infinity, before or after bias and penalties, and when every token is
 * ruled out. ret_sample's numbers are of the untouched logits.
 */
int32_t sampler_choose(const float *logits, uint32_t vocab, const uint32_t *history, uint32_t history_count, const surge_sampler_desc *sampler,
                       sampler_scratch *scratch, surge_sample *ret_sample, surge_error *err);
/* Uniform in [0, 1): SplitMix64's finaliser over seed and draw (Steele, Lea, Flood, OOPSLA 2014), 53 bits. */
double sampler_uniform(uint64_t seed, uint64_t draw);

#endif
