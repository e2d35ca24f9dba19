/* format.c – the table of formats, made from the one list. */
#include "quant/format.h"

#include "quant/decode.h"

static const quant_format FORMATS[] = {
#define X(id, name, elements, bytes) {(id), (elements), (bytes), #name, decode_##name},
    QUANT_FORMATS(X)
#undef X
};

const quant_format *quant_format_find(uint32_t dtype) {
  for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
    if (FORMATS[i].dtype == dtype) {
      return &FORMATS[i];
    }
  }
  return NULL;
}
