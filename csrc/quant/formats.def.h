/*
 * formats.def.h – the one list of storage formats: X(type id, NAME, elements per block, bytes per block).
 * Ids are GGML's; F8_E4M3 (safetensors) has one of ours. Sources: ggml-common.h, reference tables of the golden blocks.
 */
#define QUANT_FORMATS(X) \
  X(0, F32, 1, 4) \
  X(1, F16, 1, 2) \
  X(2, Q4_0, 32, 18) \
  X(3, Q4_1, 32, 20) \
  X(6, Q5_0, 32, 22) \
  X(7, Q5_1, 32, 24) \
  X(8, Q8_0, 32, 34) \
  X(10, Q2_K, 256, 84) \
  X(11, Q3_K, 256, 110) \
  X(12, Q4_K, 256, 144) \
  X(13, Q5_K, 256, 176) \
  X(14, Q6_K, 256, 210) \
  X(16, IQ2_XXS, 256, 66) \
  X(17, IQ2_XS, 256, 74) \
  X(18, IQ3_XXS, 256, 98) \
  X(19, IQ1_S, 256, 50) \
  X(20, IQ4_NL, 32, 18) \
  X(21, IQ3_S, 256, 110) \
  X(22, IQ2_S, 256, 82) \
  X(23, IQ4_XS, 256, 136) \
  X(29, IQ1_M, 256, 56) \
  X(30, BF16, 1, 2) \
  X(34, TQ1_0, 256, 54) \
  X(35, TQ2_0, 256, 66) \
  X(39, MXFP4, 32, 17) \
  X(40, NVFP4, 64, 36) \
  X(256, F8_E4M3, 1, 1)
