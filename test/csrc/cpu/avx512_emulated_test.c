/*
 * avx512_emulated_test.c – the checks of kernels_test.c on the AVX-512 and AMX kernels, wherever there is AVX2: their intrinsics are emulated
 * (test/support/avx512_emulated.h), so that a mistake in them shows on a machine that cannot run them.
 * Breaks when: such a kernel does not give the bits of the plain one, reads past its rows, or uses tiles as no processor allows.
 */
#include "cpu/dispatch.h"
#include "cpu/kernels/matmul_q8/variants.h"

/* The kernels as compiled for this program, which the linker takes before the library's. */
#define VNNI(format, block) matmul_q8_##format##_avx512vnni,
#define AMX(format, block) matmul_q8_##format##_amx_int8,
#define GEMV(format, block) gemv_q8_##format##_avx512vnni,
#define EMULATED(name, integer) \
  {(name), 16, {MATMUL_Q8_FORMATS(integer)}, {MATMUL_Q8_FORMATS(GEMV)}, quantise_q8_ref, dot_f32_avx512, attention_block_avx512, \
   gdn_recur_avx512, &elementwise_avx512, probe_read_ref, probe_int8_ref}

#if defined(AVX512_EMULATED)
static const cpu_kernels *emulated_at(uint32_t index) {
  static const cpu_kernels tables[] = {EMULATED("avx512vnni (emulated)", VNNI), EMULATED("amx_int8 (emulated)", AMX)};
  return index == 0 ? cpu_dispatch_at(0) : index <= 2 ? &tables[index - 1] : NULL;
}
#define cpu_dispatch_at emulated_at
#include "kernels_test.c"
#else
#include "check.h"

TEST(avx512_emulated) { SKIP("it takes an x86-64 processor and SIMDe (libsimde-dev)"); }

int main(void) {
  RUN(avx512_emulated);
  return check_done();
}
#endif
