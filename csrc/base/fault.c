/* fault.c – see fault.h. */
#include "base/fault.h"

static uint32_t questions_left;

void fault_arm(uint32_t nth) { questions_left = nth; }

int fault_now(void) { return questions_left > 0 && --questions_left == 0; }
