/* avx2.c – see elementwise.h and body.h. */

#include "cpu/kernels/elementwise/body.h"

const elementwise_kernels elementwise_avx2 = ELEMENTWISE_TABLE;
