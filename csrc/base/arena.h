/*
 * arena.h – one block of anonymous memory, taken once and handed out in order; nothing is given back singly.
 *
 * A measuring arena hands out NULL and counts, so that the code that takes memory is also the code that says how much it needs.
 * Pages that nobody touches cost nothing.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "surge.h"

typedef struct arena {
  uint8_t *base;
  uint8_t *mapping; /* around base, with room that nobody may touch before and after it */
  uint64_t size, used, mapping_bytes;
  int measuring;
  int exhausted; /* something did not fit */
} arena;

void arena_measure(arena *a);
int32_t arena_open(arena *a, uint64_t bytes, surge_error *err);
void arena_close(arena *a);
/* `bytes` zeroed bytes aligned to `align` (a power of two, at most 64); NULL while measuring and when exhausted. */
void *arena_take(arena *a, uint64_t bytes, uint64_t align);
/* `count` items of `bytes` each; a product past 64 bits is exhaustion. */
void *arena_take_array(arena *a, uint64_t count, uint64_t bytes, uint64_t align);
int arena_measuring(const arena *a);
uint64_t arena_used(const arena *a);

#endif
