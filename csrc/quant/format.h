/*
 * format.h – the storage formats and their decoders. A decoder is the definition of its format: exact to the last bit, with the
 * float32 operation order of the reference decoders (no fused multiply-add), signed zeros included.
 */
#ifndef QUANT_FORMAT_H
#define QUANT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "quant/formats.def.h"

typedef enum quant_dtype {
#define X(id, name, elements, bytes) QUANT_##name = (id),
  QUANT_FORMATS(X)
#undef X
} quant_dtype;

typedef struct quant_format {
  uint32_t dtype;
  uint32_t block_elements, block_bytes;
  const char *name;
  /* Decodes block_count blocks at any alignment into block_count * block_elements values; the two must not overlap. */
  void (*decode)(const void *blocks, float *ret_values, size_t block_count);
} quant_format;

/* NULL: not a format this library knows. */
const quant_format *quant_format_find(uint32_t dtype);

#endif
