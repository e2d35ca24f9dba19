/*
 * lock.h – keeping memory in memory. Locked pages are fetched at once and never leave until they are unmapped.
 */
#ifndef OS_LOCK_H
#define OS_LOCK_H

#include "surge.h"

/* Asks the kernel whether so many bytes more may be locked, without taking any. E_MEMORY with what limits it and what to do. */
int32_t memory_lock_check(uint64_t bytes, surge_error *err);
/* E_MEMORY where it fails; part of the range may be locked then, until it is unmapped. */
int32_t memory_lock(const void *base, uint64_t bytes, surge_error *err);

#endif
