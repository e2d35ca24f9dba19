/* error.c – see error.h. Truncates what does not fit; never allocates. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 5, 0))) static int32_t fill(surge_error *err, int32_t status, int32_t file, int32_t tensor, const char *format,
                                                           va_list arguments) {
  if (err == NULL || err->struct_size != sizeof *err) {
    return status;
  }
  const int written = vsnprintf(err->message, sizeof err->message, format, arguments);
  err->status = status;
  err->file = file;
  err->tensor = tensor;
  err->message_bytes = written < 0 ? 0 : (uint32_t)written < sizeof err->message ? (uint32_t)written : (uint32_t)sizeof err->message - 1;
  return status;
}

int32_t error_set(surge_error *err, int32_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(err, status, -1, -1, format, arguments);
  va_end(arguments);
  return status;
}

int32_t error_at(surge_error *err, int32_t status, int32_t file, int32_t tensor, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(err, status, file, tensor, format, arguments);
  va_end(arguments);
  return status;
}
