/* none.c – a machine or build without an NPU. */
#include "base/error.h"
#include "npu/npu.h"

int32_t npu_open(uint32_t devices, surge_error *err) {
  if (devices > 0) {
    return error_set(err, SURGE_E_DEVICE, "the plan asks for %u NPU(s) and this machine has none", devices);
  }
  return SURGE_OK;
}
