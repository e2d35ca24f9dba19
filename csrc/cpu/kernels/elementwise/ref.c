/* ref.c – see elementwise.h and body.h. */

#include "cpu/kernels/elementwise/body.h"

const elementwise_kernels elementwise_ref = ELEMENTWISE_TABLE;
