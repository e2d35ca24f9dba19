/* probe.c – see probe.h. */
#include "cpu/probe.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fault.h"
#include "cpu/dispatch.h"
#include "cpu/pool/pool.h"

enum { STRIPE = 1 << 20, ROUNDS = 1 << 14, CALLS = 64 };

struct surge_probe {
  pool *pool;
  arena memory;
  const cpu_kernels *kernels;
  uint8_t *data;
  uint64_t bytes;
  _Atomic uint32_t products; /* of one round */
  _Atomic int32_t sink; /* results go here, so that nothing is left out */
};

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(void *context, uint32_t worker, uint32_t workers) {
  surge_probe *p = context;
  uint32_t stripe = 0;
  uint32_t end = 0;
  (void)worker;
  (void)workers;
  while (pool_claim(p->pool, (uint32_t)(p->bytes / STRIPE), 1, &stripe, &end)) {
    memset(p->data + (uint64_t)stripe * STRIPE, 1, STRIPE);
  }
}

int32_t probe_open(surge_probe **ret_probe, uint32_t threads, uint64_t bytes, surge_error *err) {
  surge_probe *p = fault_now() ? NULL : calloc(1, sizeof *p);
  if (p == NULL) {
    return error_set(err, SURGE_E_MEMORY, "no memory for a measurement");
  }
  p->bytes = bytes / STRIPE * STRIPE;
  int32_t status = p->bytes == 0 || threads == 0 || threads > 512 ? error_set(err, SURGE_E_ARGUMENT, "a measurement with %u threads over %llu bytes",
                                                                              threads, (unsigned long long)bytes)
                                                                  : cpu_dispatch(&p->kernels, err);
  if (status == SURGE_OK) {
    status = arena_open(&p->memory, p->bytes, err);
  }
  if (status == SURGE_OK) {
    status = pool_open(&p->pool, threads, NULL, err);
  }
  if (status < 0) {
    probe_close(p);
    return status;
  }
  p->data = arena_take(&p->memory, p->bytes, 64);
  pool_run(p->pool, fill, p);
  *ret_probe = p;
  return SURGE_OK;
}

void probe_close(surge_probe *p) {
  if (p == NULL) {
    return;
  }
  if (p->pool != NULL) {
    pool_close(p->pool);
  }
  arena_close(&p->memory);
  free(p);
}

static void read_stripes(void *context, uint32_t worker, uint32_t workers) {
  surge_probe *p = context;
  uint32_t stripe = 0;
  uint32_t end = 0;
  (void)worker;
  (void)workers;
  while (pool_claim(p->pool, (uint32_t)(p->bytes / STRIPE), 8, &stripe, &end)) {
    const float sum = p->kernels->probe_read((const float *)(const void *)(p->data + (uint64_t)stripe * STRIPE), (uint64_t)(end - stripe) * STRIPE);
    p->sink += sum > 0;
  }
}

double probe_bandwidth(surge_probe *p) {
  const double start = now_seconds();
  pool_run(p->pool, read_stripes, p);
  return (double)p->bytes / (now_seconds() - start);
}

static void multiply(void *context, uint32_t worker, uint32_t workers) {
  surge_probe *p = context;
  uint32_t call = 0;
  uint32_t end = 0;
  int32_t sum = 0;
  (void)worker;
  while (pool_claim(p->pool, CALLS * workers, 1, &call, &end)) {
    p->products = p->kernels->probe_int8(ROUNDS, &sum);
    p->sink += sum;
  }
}

double probe_int8(surge_probe *p) {
  const double start = now_seconds();
  pool_run(p->pool, multiply, p);
  const double seconds = now_seconds() - start;
  return (double)p->products * ROUNDS * CALLS * pool_threads(p->pool) / seconds;
}
