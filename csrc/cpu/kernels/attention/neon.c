/* neon.c – see attention.h and body.h. */
#define LANES_NEON
#include "cpu/kernels/attention/body.h"

void attention_block_neon(const attention_block *b) { run_block(b); }
