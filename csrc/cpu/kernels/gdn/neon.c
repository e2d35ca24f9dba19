/* neon.c – see gdn.h and body.h. */
#define LANES_NEON
#include "cpu/kernels/gdn/body.h"

void gdn_recur_neon(const gdn_span *s) { recur(s); }
