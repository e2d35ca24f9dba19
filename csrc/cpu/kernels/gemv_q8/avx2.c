/* avx2.c – see gemv_q8.h and gemv_x86.h. */
#include "cpu/kernels/gemv_q8/gemv_x86.h"

GEMV_LOOKED_UP(avx2)
GEMV_BLOCKS(Q8_0, avx2, 272, 2, 34, dot_Q8_0, scales_f16, 0)
GEMV_SUPER_BLOCKS(Q4_K, avx2, 144, 1)
GEMV_SUPER_BLOCKS(Q5_K, avx2, 176, 1)
GEMV_SUPER_BLOCKS(Q6_K, avx2, 210, 0)
