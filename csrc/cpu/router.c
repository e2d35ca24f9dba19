/* router.c – see router.h. */
#include "cpu/router.h"

#include <math.h>

/* NaN compares false, so it never rises: the first experts stand in, and the sampler reports the NaN. */
static void insert(const float *logits, uint32_t expert, uint32_t *chosen, uint32_t last) {
  uint32_t place = last;
  while (place > 0 && logits[expert] > logits[chosen[place - 1]]) {
    chosen[place] = chosen[place - 1];
    place--;
  }
  chosen[place] = expert;
}

void router_choose(const float *logits, uint32_t experts, uint32_t used, uint32_t renormalise, uint32_t *ret_experts, float *ret_weights) {
  for (uint32_t e = 0; e < used; e++) {
    insert(logits, e, ret_experts, e);
  }
  for (uint32_t e = used; e < experts; e++) {
    if (logits[e] > logits[ret_experts[used - 1]]) {
      insert(logits, e, ret_experts, used - 1);
    }
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
