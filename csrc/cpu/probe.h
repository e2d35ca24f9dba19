/*
 * probe.h – measuring this machine's limits with all threads at once: what the roofline of a report is made of.
 * Owns its own threads and a buffer that no cache holds; nothing else uses it while it measures.
 */
#ifndef CPU_PROBE_H
#define CPU_PROBE_H

#include "surge.h"

/* A buffer of `bytes` (at least 1 MiB), written once. E_MEMORY where it cannot be had. */
int32_t probe_open(surge_probe **ret_probe, uint32_t threads, uint64_t bytes, surge_error *err);
void probe_close(surge_probe *p);
/* Bytes per second of one pass over the buffer. */
double probe_bandwidth(surge_probe *p);
/* Multiply-adds of 8-bit values per second, over about 50 ms. */
double probe_int8(surge_probe *p);

#endif
