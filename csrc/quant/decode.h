/* decode.h – the decoders behind the table in format.c. Internal to quant/. */
#ifndef QUANT_DECODE_H
#define QUANT_DECODE_H

#include <stddef.h>

#include "quant/formats.def.h"

#define X(id, name, elements, bytes) void decode_##name(const void *blocks, float *ret_values, size_t block_count);
QUANT_FORMATS(X)
#undef X

#endif
