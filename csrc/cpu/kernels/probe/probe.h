/*
 * probe.h – the two limits every kernel is measured against: how fast memory is read, and how fast 8-bit products are made by the
 * instructions that matmul_q8 uses on this processor. Loops without a purpose, made so that nothing but the limit slows them.
 */
#ifndef CPU_KERNELS_PROBE_H
#define CPU_KERNELS_PROBE_H

#include <stddef.h>
#include <stdint.h>

/* Reads `bytes` bytes (a multiple of 256) once. The result depends on all of them, so that no read can be left out. */
typedef float (*probe_read_fn)(const float *data, size_t bytes);
/* Makes `rounds` times as many products as it returns multiply-adds for one round; *ret_sum keeps them from being left out. */
typedef uint32_t (*probe_int8_fn)(uint32_t rounds, int32_t *ret_sum);

float probe_read_ref(const float *data, size_t bytes);
float probe_read_avx2(const float *data, size_t bytes);
float probe_read_avx512(const float *data, size_t bytes);
float probe_read_neon(const float *data, size_t bytes);
uint32_t probe_int8_ref(uint32_t rounds, int32_t *ret_sum);
uint32_t probe_int8_avx2(uint32_t rounds, int32_t *ret_sum);
uint32_t probe_int8_avx512vnni(uint32_t rounds, int32_t *ret_sum);
uint32_t probe_int8_amx_int8(uint32_t rounds, int32_t *ret_sum);
uint32_t probe_int8_neon_dotprod(uint32_t rounds, int32_t *ret_sum);
uint32_t probe_int8_neon_i8mm(uint32_t rounds, int32_t *ret_sum);

#endif
