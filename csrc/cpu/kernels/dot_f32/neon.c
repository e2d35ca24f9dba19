/* neon.c – see dot_f32.h and body.h. */
#define LANES_NEON
#include "cpu/kernels/dot_f32/body.h"

void dot_f32_neon(const dot_f32_rows *r) { dot_rows(r); }
