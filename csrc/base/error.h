/* error.h – filling the caller's surge_error. The message is one sentence without file and tensor names; those go by index. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "surge.h"

/* Both return `status`, so that a failure is one return statement. err may be NULL. */
__attribute__((format(printf, 3, 4))) int32_t error_set(surge_error *err, int32_t status, const char *format, ...);
__attribute__((format(printf, 5, 6))) int32_t error_at(surge_error *err, int32_t status, int32_t file, int32_t tensor, const char *format, ...);

#endif
