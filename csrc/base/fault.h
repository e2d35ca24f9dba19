/*
 * fault.h – makes the n-th taking of a resource fail, so that tests can walk every way out of a half-built engine.
 *
 * Always compiled in: what is tested is what ships. Outside tests nothing is armed and the question costs one comparison. Asked by the
 * one thread that builds and takes down engines, never in a step.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdint.h>

/* The n-th question from now on is answered with yes, once; 0 disarms. */
void fault_arm(uint32_t nth);
/* Asked before memory, a mapping or a thread is taken: non-zero when it must fail. */
int fault_now(void);

#endif
