/*
 * pool.h – a fixed set of threads that run one task together and meet again.
 *
 * The caller is worker 0; a pool of one has no thread. Workers block all signals and hold nothing between tasks. Work is split by
 * pool_range, so which worker computes a value depends on the thread count but the value never does.
 */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include "surge.h"

typedef struct pool pool;
typedef void (*pool_task)(void *context, uint32_t worker, uint32_t workers);

int32_t pool_open(pool **ret_pool, uint32_t threads, surge_error *err);
void pool_close(pool *p);
/* Every worker runs the task once; returns when all are done. */
void pool_run(pool *p, pool_task task, void *context);
/* The worker's share [begin, end) of `total` items, cut at multiples of `align`. */
void pool_range(uint32_t total, uint32_t worker, uint32_t workers, uint32_t align, uint32_t *ret_begin, uint32_t *ret_end);

#endif
