/* ref.c – see gdn.h and body.h. */

#include "cpu/kernels/gdn/body.h"

void gdn_recur_ref(const gdn_span *s) { recur(s); }
