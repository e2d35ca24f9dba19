/*
 * dispatch.h – which kernels this processor runs. Decided once, from the processor's features and SURGE_ISA; everything above takes
 * kernels from this table and from nowhere else.
 */
#ifndef CPU_DISPATCH_H
#define CPU_DISPATCH_H

#include "cpu/kernels/attention/attention.h"
#include "cpu/kernels/dot_f32/dot_f32.h"
#include "cpu/kernels/elementwise/elementwise.h"
#include "cpu/kernels/gdn/gdn.h"
#include "cpu/kernels/gemv_q8/gemv_q8.h"
#include "cpu/kernels/matmul_q8/matmul_q8.h"
#include "cpu/kernels/probe/probe.h"
#include "cpu/kernels/quantise_q8/quantise_q8.h"
#include "surge.h"

enum {
#define X(format, block) MATMUL_Q8_##format,
  MATMUL_Q8_FORMATS(X)
#undef X
  MATMUL_Q8_COUNT,
  MATMUL_Q8_NONE = MATMUL_Q8_COUNT
};

/* The two ways activations are quantised; a format names its own. */
enum { Q8_BLOCKS_32, Q8_BLOCKS_256, Q8_BLOCKS_COUNT };

typedef struct cpu_kernels {
  const char *name; /* as in SURGE_ISA */
  uint32_t tile_rows; /* weight rows that matmul_q8 takes at a time */
  matmul_q8_fn matmul_q8[MATMUL_Q8_COUNT];
  gemv_q8_fn gemv_q8[MATMUL_Q8_COUNT]; /* NULL: matmul_q8 is as fast */
  quantise_q8_fn quantise_q8;
  dot_f32_fn dot_f32;
  attention_block_fn attention_block;
  gdn_recur_fn gdn_recur;
  const elementwise_kernels *elementwise;
  probe_read_fn probe_read;
  probe_int8_fn probe_int8;
} cpu_kernels;

/* The best table this processor runs, or the one SURGE_ISA names. E_DEVICE where that name is unknown or not possible here. */
int32_t cpu_dispatch(const cpu_kernels **ret_kernels, surge_error *err);
/* All tables that run here, the plainest (ref) first; NULL past the end. For tests and reports. */
const cpu_kernels *cpu_dispatch_at(uint32_t index);
/* Kernel of a storage format (quant/formats.def.h), or MATMUL_Q8_NONE. */
uint32_t matmul_q8_find(uint32_t dtype);
/* Q8_BLOCKS_32 or Q8_BLOCKS_256 for a kernel below MATMUL_Q8_COUNT. */
uint32_t matmul_q8_blocks(uint32_t kernel);

#endif
