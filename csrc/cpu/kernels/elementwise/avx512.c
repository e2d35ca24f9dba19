/* avx512.c – see elementwise.h and body.h. */

#include "cpu/kernels/elementwise/body.h"

const elementwise_kernels elementwise_avx512 = ELEMENTWISE_TABLE;
