/* router.h – which experts a token goes to, and grouping of a step's tokens by expert. */
#ifndef CPU_ROUTER_H
#define CPU_ROUTER_H

#include <stddef.h>
#include <stdint.h>

/*
 * The `used` largest of logits[experts] in falling order, the lowest index first among equals, with their softmax weights
 * (renormalised over the chosen ones, or as they are among all).
 */
void router_choose(const float *logits, uint32_t experts, uint32_t used, uint32_t renormalise, uint32_t *ret_experts, float *ret_weights);
/*
 * chosen[pairs] → ret_order: pair indices grouped by expert, ascending within an expert; ret_starts[experts + 1]: where each
 * expert's group begins (counting sort, stable).
 */
void router_group(const uint32_t *chosen, uint32_t pairs, uint32_t experts, uint32_t *ret_starts, uint32_t *ret_order);

#endif
