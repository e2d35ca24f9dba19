/*
 * npu.h – what the engine asks of accelerators. npu/none/ is the answer of a build without one.
 * The NPU will hold weights only; every state stays in host memory.
 */
#ifndef NPU_NPU_H
#define NPU_NPU_H

#include "surge.h"

/* Makes `devices` accelerators ready; E_DEVICE when the machine has fewer. 0 always succeeds. */
int32_t npu_open(uint32_t devices, surge_error *err);

#endif
