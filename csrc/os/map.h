/*
 * map.h – a model file mapped read-only, or copied, after checking that it is still the file the manifest speaks of.
 * A file that shrinks while mapped raises SIGBUS on access; the parent process turns that into a sentence.
 */
#ifndef OS_MAP_H
#define OS_MAP_H

#include <stddef.h>

#include "surge.h"

/* What a mapping or a copy is made of. */
enum { FILE_MAP_PAGE = 4096, FILE_MAP_HUGE_PAGE = 2 << 20 };

typedef struct file_map {
  void *base;
  size_t bytes;
} file_map;

/* E_MISSING, E_IO, or E_CHANGED when size, time or inode differ. */
int32_t file_map_open(file_map *map, const surge_file_desc *desc, surge_error *err);
/*
 * The same content in anonymous memory, in huge pages where the system gives them; the file's own pages are let go as they are copied, so
 * that the weights are in memory once. E_MEMORY where it cannot be had.
 */
int32_t file_map_copy(file_map *map, const surge_file_desc *desc, surge_error *err);
void file_map_close(file_map *map);

#endif
