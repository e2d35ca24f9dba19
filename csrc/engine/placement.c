/*
 * placement.c – what the engine got, beside what it asked for: pages of the weights and of its own memory, processors of its threads.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "os/affinity.h"
#include "os/smaps.h"

enum { WEIGHTS, ARENA, GROUPS, FILES_AT_ONCE = 64 };

_Static_assert(sizeof(((surge_placement *)0)->cpus) == sizeof(cpu_mask), "every processor has a bit");

static smaps_range range_of(const void *base, uint64_t bytes, uint32_t group) { return (smaps_range){(uint64_t)(uintptr_t)base, bytes, group}; }

static int32_t read_pages(const surge_engine *e, surge_placement *p, surge_error *err) {
  uint64_t sums[GROUPS][SURGE_PAGE_COUNT] = {{0}};
  smaps_range ranges[FILES_AT_ONCE];
  ranges[0] = range_of(e->memory.base, e->memory.size, ARENA);
  int32_t status = smaps_sum("/proc/self/smaps", ranges, 1, sums, err);
  for (uint32_t first = 0; first < e->weights.file_count && status == SURGE_OK; first += FILES_AT_ONCE) {
    uint32_t count = 0;
    for (uint32_t i = first; i < e->weights.file_count && count < FILES_AT_ONCE; i++) {
      ranges[count++] = range_of(e->weights.files[i].base, e->weights.files[i].bytes, WEIGHTS);
    }
    status = smaps_sum("/proc/self/smaps", ranges, count, sums, err);
  }
  memcpy(p->weights, sums[WEIGHTS], sizeof p->weights);
  memcpy(p->arena, sums[ARENA], sizeof p->arena);
  return status;
}

typedef struct places {
  _Atomic uint64_t words[CPUS_MAX / 64];
  _Atomic uint32_t pinned, unknown;
} places;

static void say_place(void *context, uint32_t worker, uint32_t workers) {
  places *all = context;
  cpu_mask mask;
  (void)worker;
  (void)workers;
  if (cpu_mask_get(&mask) != 0) {
    atomic_fetch_add(&all->unknown, 1);
    return;
  }
  atomic_fetch_add(&all->pinned, cpu_mask_count(&mask) == 1);
  for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
    atomic_fetch_or(&all->words[i], mask.words[i]);
  }
}

/* Each thread looks for itself, in a task like any other. */
static int32_t read_cpus(surge_engine *e, surge_placement *p, surge_error *err) {
  places all = {0};
  const int32_t status = pool_enter(e->pool, err);
  if (status < 0) {
    return status;
  }
  pool_run(e->pool, say_place, &all);
  pool_leave(e->pool);
  if (all.unknown > 0) {
    return error_set(err, SURGE_E_DEVICE, "the processors of %u threads cannot be read", (unsigned)all.unknown);
  }
  for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
    p->cpus[i] = all.words[i];
  }
  p->pinned_threads = all.pinned;
  return SURGE_OK;
}

int32_t engine_placement(surge_engine *e, surge_placement *ret_placement, surge_error *err) {
  *ret_placement = (surge_placement){.struct_size = sizeof *ret_placement};
  const int32_t status = read_pages(e, ret_placement, err);
  return status < 0 ? status : read_cpus(e, ret_placement, err);
}
