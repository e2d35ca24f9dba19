/*
 * pool.c – see pool.h. A worker waits for a new generation by spinning for a bounded time and then sleeping on a condition; the
 * caller waits for the last worker in the same way. Sleeping is announced under the lock, so no wake-up is lost.
 */
#include "cpu/pool/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/fault.h"
#include "os/affinity.h"

/*
 * Tens of microseconds: longer than the gap between two phases, short enough to give the core back on a busy machine. With more threads
 * than cores somebody always waits for a core that a spinning one holds, so nobody spins.
 */
enum { SPINS = 4000 };

typedef struct worker {
  pool *pool;
  pthread_t thread;
  uint32_t index;
  uint32_t cpu; /* of a pinned pool */
} worker;

struct pool {
  pthread_mutex_t lock;
  pthread_cond_t work, done, met;
  pool_task task;
  void *context;
  worker *workers;
  uint32_t count, started;
  int spins;
  int pinned;
  cpu_mask outside; /* the caller's processors before pool_enter */
  _Atomic uint32_t generation, pending;
  _Atomic uint32_t arrived, phase, sleepers; /* of pool_sync */
  _Atomic uint32_t next; /* item of this phase */
  _Atomic int stop;
};

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void wait_for_work(pool *p, uint32_t seen) {
  for (int i = 0; i < p->spins; i++) {
    if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) {
      return;
    }
    pause_briefly();
  }
  pthread_mutex_lock(&p->lock);
  while (atomic_load(&p->generation) == seen) {
    pthread_cond_wait(&p->work, &p->lock);
  }
  pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *argument) {
  worker *w = argument;
  pool *p = w->pool;
  char name[16]; /* what ps and top show; the kernel's limit */
  uint32_t seen = 0;
  snprintf(name, sizeof name, "surge-cpu-%u", (unsigned)(uint16_t)w->index);
  prctl(PR_SET_NAME, name);
  for (;;) {
    wait_for_work(p, seen);
    seen = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (atomic_load(&p->stop)) {
      return NULL;
    }
    p->task(p->context, w->index, p->count);
    if (atomic_fetch_sub_explicit(&p->pending, 1, memory_order_acq_rel) == 1) {
      pthread_mutex_lock(&p->lock);
      pthread_cond_signal(&p->done);
      pthread_mutex_unlock(&p->lock);
    }
  }
}

static void announce(pool *p) {
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
}

static void wait_for_workers(pool *p) {
  for (int i = 0; i < p->spins; i++) {
    if (atomic_load_explicit(&p->pending, memory_order_acquire) == 0) {
      return;
    }
    pause_briefly();
  }
  pthread_mutex_lock(&p->lock);
  while (atomic_load(&p->pending) != 0) {
    pthread_cond_wait(&p->done, &p->lock);
  }
  pthread_mutex_unlock(&p->lock);
}

void pool_run(pool *p, pool_task task, void *context) {
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  if (p->count > 1) {
    p->task = task;
    p->context = context;
    atomic_store_explicit(&p->pending, p->count - 1, memory_order_release);
    announce(p);
  }
  task(context, 0, p->count);
  if (p->count > 1) {
    wait_for_workers(p);
  }
}

static void sleep_until_phase_after(pool *p, uint32_t seen) {
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add(&p->sleepers, 1);
  while (atomic_load(&p->phase) == seen) {
    pthread_cond_wait(&p->met, &p->lock);
  }
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->lock);
}

static void wake_sleepers(pool *p) {
  if (atomic_load(&p->sleepers) > 0) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->met);
    pthread_mutex_unlock(&p->lock);
  }
}

uint32_t pool_threads(const pool *p) { return p->count; }

void pool_sync(pool *p) {
  const uint32_t seen = atomic_load_explicit(&p->phase, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == p->count) {
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_fetch_add(&p->phase, 1); /* before sleepers are looked at, as a sleeper looks at the phase after it has announced itself */
    wake_sleepers(p);
    return;
  }
  for (int i = 0; i < p->spins; i++) {
    if (atomic_load_explicit(&p->phase, memory_order_acquire) != seen) {
      return;
    }
    pause_briefly();
  }
  sleep_until_phase_after(p, seen);
}

int pool_claim(pool *p, uint32_t total, uint32_t grain, uint32_t *ret_begin, uint32_t *ret_end) {
  /* Looked at first: a counter that every late claim raised would wrap in the end. */
  if (atomic_load_explicit(&p->next, memory_order_relaxed) >= total) {
    return 0;
  }
  const uint32_t begin = atomic_fetch_add_explicit(&p->next, grain, memory_order_relaxed);
  *ret_begin = begin;
  *ret_end = total - begin < grain ? total : begin + grain;
  return begin < total;
}

uint32_t pool_grain(const pool *p, uint32_t total, uint32_t least) {
  enum { CLAIMS = 8 }; /* per worker */
  const uint32_t grain = total / (p->count * CLAIMS);
  return grain > least ? grain : least;
}

int32_t pool_check_cpus(const uint32_t *cpus, uint32_t threads, surge_error *err) {
  cpu_mask left;
  char allowed[64];
  if (cpus == NULL) {
    return SURGE_OK;
  }
  if (cpu_mask_get(&left) != 0) {
    return error_set(err, SURGE_E_DEVICE, "the processors of this process cannot be read: %s", strerror(errno));
  }
  cpu_mask_text(&left, allowed, sizeof allowed);
  for (uint32_t i = 0; i < threads; i++) {
    if (!cpu_mask_has(&left, cpus[i])) {
      return error_set(err, SURGE_E_DEVICE, "the plan pins a thread to CPU %u, which is named twice or not among those this process may use (%s)", cpus[i],
                       allowed);
    }
    left.words[cpus[i] / 64] &= ~((uint64_t)1 << cpus[i] % 64);
  }
  return SURGE_OK;
}

/* The calling thread to worker `index`'s processor; a thread that it starts then begins there. */
static int32_t move_to(const pool *p, uint32_t index, surge_error *err) {
  const cpu_mask mask = cpu_mask_of(p->workers[index].cpu);
  errno = EINVAL; /* of an injected failure */
  if (p->pinned && (fault_now() || cpu_mask_set(&mask) != 0)) {
    return error_set(err, SURGE_E_DEVICE, "thread %u of %u cannot be pinned to CPU %u: %s", index + 1, p->count, p->workers[index].cpu, strerror(errno));
  }
  return SURGE_OK;
}

int32_t pool_enter(pool *p, surge_error *err) {
  if (!p->pinned) {
    return SURGE_OK;
  }
  if (cpu_mask_get(&p->outside) != 0) {
    return error_set(err, SURGE_E_DEVICE, "the processors of this process cannot be read: %s", strerror(errno));
  }
  return move_to(p, 0, err);
}

/* Where the kernel refuses (every processor of before is gone), the thread stays on one that works. */
void pool_leave(pool *p) {
  if (p->pinned) {
    (void)cpu_mask_set(&p->outside);
  }
}

/* Signals belong to the threads that run JavaScript. */
static int32_t start_worker(pool *p, uint32_t index, surge_error *err) {
  sigset_t all;
  sigset_t before;
  const int32_t status = move_to(p, index, err);
  if (status < 0) {
    return status;
  }
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = fault_now() || pthread_create(&p->workers[index].thread, NULL, worker_main, &p->workers[index]) != 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    return error_set(err, SURGE_E_MEMORY, "thread %u of %u could not be started", index + 1, p->count);
  }
  p->started = index + 1;
  return SURGE_OK;
}

static uint32_t cores_allowed(void) {
  cpu_mask mask;
  return cpu_mask_get(&mask) == 0 ? cpu_mask_count(&mask) : 1;
}

static int32_t start_workers(pool *p, surge_error *err) {
  int32_t status = pool_enter(p, err);
  for (uint32_t i = 1; i < p->count && status == SURGE_OK; i++) {
    status = start_worker(p, i, err);
  }
  pool_leave(p);
  return status;
}

int32_t pool_open(pool **ret_pool, uint32_t threads, const uint32_t *cpus, surge_error *err) {
  const int32_t checked = pool_check_cpus(cpus, threads, err);
  if (checked < 0) {
    return checked;
  }
  pool *p = fault_now() ? NULL : calloc(1, sizeof *p);
  worker *workers = fault_now() ? NULL : calloc(threads, sizeof *workers);
  if (p == NULL || workers == NULL) {
    free(workers);
    free(p);
    return error_set(err, SURGE_E_MEMORY, "no memory for %u threads", threads);
  }
  *p = (pool){.workers = workers, .count = threads, .started = 1, .spins = threads <= cores_allowed() ? SPINS : 0, .pinned = cpus != NULL};
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  pthread_cond_init(&p->met, NULL);
  for (uint32_t i = 0; i < threads; i++) {
    workers[i] = (worker){.pool = p, .index = i, .cpu = cpus == NULL ? 0 : cpus[i]};
  }
  const int32_t status = start_workers(p, err);
  if (status < 0) {
    pool_close(p);
    return status;
  }
  *ret_pool = p;
  return SURGE_OK;
}

void pool_close(pool *p) {
  atomic_store(&p->stop, 1);
  announce(p);
  for (uint32_t i = 1; i < p->started; i++) {
    pthread_join(p->workers[i].thread, NULL);
  }
  pthread_cond_destroy(&p->met);
  pthread_cond_destroy(&p->done);
  pthread_cond_destroy(&p->work);
  pthread_mutex_destroy(&p->lock);
  free(p->workers);
  free(p);
}
