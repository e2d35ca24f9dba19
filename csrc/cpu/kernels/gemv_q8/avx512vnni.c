/* avx512vnni.c – see gemv_q8.h and gemv_x86.h. */
#include "cpu/kernels/gemv_q8/gemv_x86.h"

GEMV_VARIANT(avx512vnni)
