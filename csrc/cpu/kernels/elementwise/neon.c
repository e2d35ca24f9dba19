/* neon.c – see elementwise.h and body.h. */
#define LANES_NEON
#include "cpu/kernels/elementwise/body.h"

const elementwise_kernels elementwise_neon = ELEMENTWISE_TABLE;
