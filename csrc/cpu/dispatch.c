/* dispatch.c – see dispatch.h. A table is filled from the lists, so that a kernel without a variant does not link. */
#include "cpu/dispatch.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#ifndef HWCAP2_I8MM /* kernel headers older than the instruction */
#define HWCAP2_I8MM (1 << 13)
#endif
#endif

#include "base/error.h"
#include "cpu/kernels/matmul_q8/variants.h"
#include "quant/format.h"

/* `integer` names the matmul_q8 variant, `lanes` that of the float32 bodies. */
#define MATMUL_Q8_ref(format, block) matmul_q8_##format##_ref,
#define MATMUL_Q8_avx2(format, block) matmul_q8_##format##_avx2,
#define MATMUL_Q8_avx512vnni(format, block) matmul_q8_##format##_avx512vnni,
#define MATMUL_Q8_amx_int8(format, block) matmul_q8_##format##_amx_int8,
#define MATMUL_Q8_neon_dotprod(format, block) matmul_q8_##format##_neon_dotprod,
#define MATMUL_Q8_neon_i8mm(format, block) matmul_q8_##format##_neon_i8mm,
#define GEMV_Q8_none(format, block) NULL,
#define GEMV_Q8_avx2(format, block) gemv_q8_##format##_avx2,
#define GEMV_Q8_avx512vnni(format, block) gemv_q8_##format##_avx512vnni,
#define TABLE(integer, rows, gemv, quantise, lanes) NAMED_TABLE(#integer, integer, rows, gemv, quantise, lanes)
#define NAMED_TABLE(name, integer, rows, gemv, quantise, lanes) \
  {(name), (rows), {MATMUL_Q8_FORMATS(MATMUL_Q8_##integer)}, {MATMUL_Q8_FORMATS(GEMV_Q8_##gemv)}, quantise_q8_##quantise, \
   dot_f32_##lanes, attention_block_##lanes, gdn_recur_##lanes, &elementwise_##lanes, probe_read_##lanes, probe_int8_##integer}

/* From the plainest to the fastest. */
static const cpu_kernels TABLES[] = {
    TABLE(ref, 4, none, ref, ref),
#if defined(__x86_64__)
    TABLE(avx2, 8, avx2, avx2, avx2),
    TABLE(avx512vnni, 16, avx512vnni, avx2, avx512),
    TABLE(amx_int8, 16, avx512vnni, avx2, avx512),
#endif
#if defined(__aarch64__)
    NAMED_TABLE("neon", ref, 4, none, neon, neon), /* no dot products: the plain matrix products */
    TABLE(neon_dotprod, 8, none, neon, neon),
    TABLE(neon_i8mm, 8, none, neon, neon),
#endif
};

enum { TABLE_COUNT = sizeof TABLES / sizeof TABLES[0] };

#if defined(__x86_64__)
/* Bit 29 of leaf 1; not every compiler's __builtin_cpu_supports knows the name. */
static int has_f16c(void) {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1) != 0;
}

static int has_avx512vnni(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

/* Bits 24 and 25 of leaf 7: tiles, and their 8-bit products. Linux gives the tiles' large state only to a process that has asked for it. */
static int may_use_amx_int8(void) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, since Linux 5.16 */
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3 && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

static int runs_here(const char *name) {
#if defined(__x86_64__)
  const int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (strcmp(name, "avx2") == 0) {
    return has_avx2;
  }
  if (strcmp(name, "avx512vnni") == 0) {
    return has_avx2 && has_avx512vnni();
  }
  if (strcmp(name, "amx_int8") == 0) {
    return has_avx2 && has_avx512vnni() && may_use_amx_int8();
  }
#endif
#if defined(__aarch64__)
  const int has_dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (strcmp(name, "neon_dotprod") == 0) {
    return has_dotprod;
  }
  if (strcmp(name, "neon_i8mm") == 0) { /* its kernels use dot products too */
    return has_dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  }
  if (strcmp(name, "neon") == 0) { /* part of the architecture */
    return 1;
  }
#endif
  return strcmp(name, "ref") == 0;
}

const cpu_kernels *cpu_dispatch_at(uint32_t index) {
  for (uint32_t i = 0; i < TABLE_COUNT; i++) {
    if (runs_here(TABLES[i].name) && index-- == 0) {
      return &TABLES[i];
    }
  }
  return NULL;
}

static int32_t find_named(const char *name, const cpu_kernels **ret_kernels, surge_error *err) {
  for (uint32_t i = 0; i < TABLE_COUNT; i++) {
    if (strcmp(TABLES[i].name, name) == 0 && runs_here(name)) {
      *ret_kernels = &TABLES[i];
      return SURGE_OK;
    }
  }
  return error_set(err, SURGE_E_DEVICE, "SURGE_ISA is \"%.32s\", which is unknown or not possible on this processor", name);
}

int32_t cpu_dispatch(const cpu_kernels **ret_kernels, surge_error *err) {
  const char *name = getenv("SURGE_ISA");
  if (name != NULL && name[0] != '\0') {
    return find_named(name, ret_kernels, err);
  }
  for (uint32_t i = 0; i < TABLE_COUNT; i++) {
    if (runs_here(TABLES[i].name)) {
      *ret_kernels = &TABLES[i];
    }
  }
  return SURGE_OK;
}

uint32_t matmul_q8_find(uint32_t dtype) {
  switch (dtype) {
#define X(format, block) \
  case QUANT_##format: \
    return MATMUL_Q8_##format;
    MATMUL_Q8_FORMATS(X)
#undef X
    default:
      return MATMUL_Q8_NONE;
  }
}

uint32_t matmul_q8_blocks(uint32_t kernel) {
  static const uint32_t blocks[] = {
#define X(format, block) (block) == 32 ? Q8_BLOCKS_32 : Q8_BLOCKS_256,
      MATMUL_Q8_FORMATS(X)
#undef X
  };
  return blocks[kernel];
}
