/* router.c – see router.h. */
#include "cpu/router.h"

#include <math.h>

static int is_chosen(const uint32_t *chosen, uint32_t count, uint32_t expert) {
  for (uint32_t i = 0; i < count; i++) {
    if (chosen[i] == expert) {
      return 1;
    }
  }
  return 0;
}

static uint32_t best_of_rest(const float *logits, uint32_t experts, const uint32_t *chosen, uint32_t count) {
  uint32_t best = UINT32_MAX;
  for (uint32_t e = 0; e < experts; e++) {
    /* NaN compares false: the first free expert stands in, and the sampler reports the NaN. */
    if (!is_chosen(chosen, count, e) && (best == UINT32_MAX || logits[e] > logits[best])) {
      best = e;
    }
  }
  return best;
}

void router_choose(const float *logits, uint32_t experts, uint32_t used, uint32_t renormalise, uint32_t *ret_experts, float *ret_weights) {
  for (uint32_t i = 0; i < used; i++) {
    ret_experts[i] = best_of_rest(logits, experts, ret_experts, i);
  }
  const float maximum = logits[ret_experts[0]];
  float sum = 0;
  for (uint32_t i = 0; i < used; i++) {
    ret_weights[i] = expf(logits[ret_experts[i]] - maximum);
    sum += ret_weights[i];
  }
  if (!renormalise) {
    sum = 0;
    for (uint32_t e = 0; e < experts; e++) {
      sum += expf(logits[e] - maximum);
    }
  }
  for (uint32_t i = 0; i < used; i++) {
    ret_weights[i] /= sum;
  }
}

void router_group(const uint32_t *chosen, uint32_t pairs, uint32_t experts, uint32_t *ret_starts, uint32_t *ret_order) {
  for (uint32_t e = 0; e <= experts; e++) {
    ret_starts[e] = 0;
  }
  for (uint32_t p = 0; p < pairs; p++) {
    ret_starts[chosen[p] + 1]++;
  }
  for (uint32_t e = 0; e < experts; e++) {
    ret_starts[e + 1] += ret_starts[e];
  }
  for (uint32_t p = 0; p < pairs; p++) {
    ret_order[ret_starts[chosen[p]]++] = p;
  }
  for (uint32_t e = experts; e > 0; e--) {
    ret_starts[e] = ret_starts[e - 1];
  }
  ret_starts[0] = 0;
}
