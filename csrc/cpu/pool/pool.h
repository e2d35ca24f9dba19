/*
 * pool.h – a fixed set of threads that run one task together and meet again.
 *
 * The caller is worker 0; a pool of one has no thread. Workers block all signals and hold nothing between tasks. Within a task, phases
 * are separated by pool_sync() and a phase's items are handed out by pool_claim(): whoever is free takes the next ones, so a core that
 * another process uses slows its own share only. Which worker computes a value may change from run to run; the value never does.
 *
 * A pool may be pinned: worker i then runs on one named processor alone. Its threads stay there; the caller is there between pool_enter()
 * and pool_leave() only, because threads that JavaScript starts would inherit its place.
 */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include "surge.h"

typedef struct pool pool;
typedef void (*pool_task)(void *context, uint32_t worker, uint32_t workers);

/* cpus: one per thread, each another one that this thread may run on; NULL: not pinned. E_DEVICE where they cannot be had. */
int32_t pool_open(pool **ret_pool, uint32_t threads, const uint32_t *cpus, surge_error *err);
/* What pool_open says of the processors, before anything is taken. */
int32_t pool_check_cpus(const uint32_t *cpus, uint32_t threads, surge_error *err);
void pool_close(pool *p);
/* Around the tasks of one call from outside: puts the calling thread where worker 0 belongs, and back. Nothing where the pool is not pinned. */
int32_t pool_enter(pool *p, surge_error *err);
void pool_leave(pool *p);
/* Every worker runs the task once; returns when all are done. */
void pool_run(pool *p, pool_task task, void *context);
uint32_t pool_threads(const pool *p);
/* Called by every worker of a running task: returns when all have called it. Items are handed out anew afterwards. */
void pool_sync(pool *p);
/* The next `grain` (or fewer) of `total` items of this phase: [*ret_begin, *ret_end). False when none are left. */
int pool_claim(pool *p, uint32_t total, uint32_t grain, uint32_t *ret_begin, uint32_t *ret_end);
/* A grain that gives each worker several claims, at least `least` items each. */
uint32_t pool_grain(const pool *p, uint32_t total, uint32_t least);

#endif
