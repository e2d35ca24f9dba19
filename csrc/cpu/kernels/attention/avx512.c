/* avx512.c – see attention.h and body.h. */

#include "cpu/kernels/attention/body.h"

void attention_block_avx512(const attention_block *b) { run_block(b); }
