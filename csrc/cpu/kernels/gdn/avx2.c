/* avx2.c – see gdn.h and body.h. */

#include "cpu/kernels/gdn/body.h"

void gdn_recur_avx2(const gdn_span *s) { recur(s); }
