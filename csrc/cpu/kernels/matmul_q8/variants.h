/* variants.h – the names of all variants, for dispatch.c, the variants themselves and their test. */
#ifndef CPU_KERNELS_MATMUL_Q8_VARIANTS_H
#define CPU_KERNELS_MATMUL_Q8_VARIANTS_H

#include "cpu/kernels/matmul_q8/matmul_q8.h"

#define X(format, block) \
  void matmul_q8_##format##_ref(const q8_multiply *m); \
  void matmul_q8_##format##_avx2(const q8_multiply *m); \
  void matmul_q8_##format##_avx512vnni(const q8_multiply *m); \
  void matmul_q8_##format##_amx_int8(const q8_multiply *m); \
  void matmul_q8_##format##_neon_dotprod(const q8_multiply *m); \
  void matmul_q8_##format##_neon_i8mm(const q8_multiply *m);
MATMUL_Q8_FORMATS(X)
#undef X

#endif
