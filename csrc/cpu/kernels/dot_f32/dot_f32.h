/* dot_f32.h – dot product of float32 vectors with a fixed order of sums: the bits depend on n and the values alone. */
#ifndef CPU_KERNELS_DOT_F32_H
#define CPU_KERNELS_DOT_F32_H

#include <stdint.h>

float dot_f32(const float *a, const float *b, uint32_t n);

#endif
