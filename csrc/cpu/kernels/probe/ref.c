/* ref.c – see probe.h and body.h. */
#include "cpu/kernels/probe/body.h"

float probe_read_ref(const float *data, size_t bytes) { return read_all(data, bytes); }

uint32_t probe_int8_ref(uint32_t rounds, int32_t *ret_sum) {
  enum { PRODUCTS = 64 };
  int8_t x[PRODUCTS] = {3};
  int32_t sum = 0;
  for (uint32_t r = 0; r < rounds; r++) {
    __asm__ volatile("" : : "r"(x) : "memory");
    for (int i = 0; i < PRODUCTS; i++) {
      sum += x[i] * x[PRODUCTS - 1 - i];
    }
  }
  *ret_sum = sum;
  return PRODUCTS;
}
