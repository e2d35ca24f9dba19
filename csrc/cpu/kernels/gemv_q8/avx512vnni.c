/* avx512vnni.c – see gemv_q8.h; gemv_avx512.h where registers of 64 bytes help, gemv_x86.h for the rest. */
#include "cpu/kernels/gemv_q8/gemv_avx512.h"

GEMV_LOOKED_UP(avx512vnni)
GEMV_WIDE(Q8_0, avx512vnni, 34, 32, 0, 128, 0)
GEMV_WIDE(Q4_K, avx512vnni, 144, 256, 1, 0, 1)
GEMV_WIDE(Q5_K, avx512vnni, 176, 256, 1, 0, 1)
GEMV_WIDE(Q6_K, avx512vnni, 210, 256, 0, 32, 0)
