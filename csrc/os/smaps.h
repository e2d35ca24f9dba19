/*
 * smaps.h – what the kernel really gave: how much of some ranges is in memory, in huge pages and locked, read from /proc/self/smaps.
 *
 * Slow (the kernel walks page tables); for reports, never in a step. Allocates nothing.
 */
#ifndef OS_SMAPS_H
#define OS_SMAPS_H

#include "surge.h"

typedef struct smaps_range {
  uint64_t start, bytes;
  uint32_t group; /* into which sums it goes */
} smaps_range;

/*
 * Adds, by surge_page, bytes to ret_sums[group]. A mapping that the kernel joined with a neighbour outside the ranges counts at most as
 * far as it overlaps them. E_IO where the file cannot be read or is not as the kernel writes it.
 */
int32_t smaps_sum(const char *path, const smaps_range *ranges, uint32_t count, uint64_t (*ret_sums)[SURGE_PAGE_COUNT], surge_error *err);

#endif
