/*
 * store.h – the weights: mapped files and the one residency table.
 *
 * Everything that reads weights gets them here, by (role, layer) or (role, layer, expert). Every weight is the
 * file's own page or, where the plan says so, a copy in huge pages; other tiers become other pointers in the same table. The store maps files, checks that every table entry lies
 * inside its file and that matrices are whole; it knows nothing about shapes a family wants (model/bind.c does).
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "os/map.h"
#include "store/matrix.h"
#include "surge.h"

typedef struct store_key {
  uint32_t role;
  int32_t layer;
  uint32_t expert;
} store_key;

typedef struct store_entry {
  store_key key;
  int32_t tensor; /* index of the first run's tensor, for messages */
  uint32_t transform;
  matrix matrix;
} store_entry;

typedef struct store {
  const surge_engine_desc *desc; /* valid during open only */
  file_map *files;
  uint32_t file_count;
  store_entry *entries; /* sorted by key */
  uint32_t entry_count;
  uint64_t mapped_bytes, copied_bytes;
} store;

/* Checks the tables and maps the files. With a measuring arena it checks, counts and maps nothing. On failure nothing stays mapped. */
int32_t store_open(store *s, const surge_engine_desc *desc, arena *memory, surge_error *err);
void store_close(store *s);
/* NULL where the manifest has none. */
const store_entry *store_find(const store *s, uint32_t role, int32_t layer, uint32_t expert);
/* The tensor whose decoded values are not all finite, or -1; buffer holds the widest row. Reads every weight: for diagnosis only. */
int32_t store_find_nonfinite(const store *s, float *buffer);

#endif
