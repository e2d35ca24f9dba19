/* tables.h – data tables of the formats. Words hold 8 (or 4) int8 values, the first in the lowest byte. Internal to quant/. */
#ifndef QUANT_TABLES_H
#define QUANT_TABLES_H

#include <stdint.h>

extern const int8_t TABLE_IQ4_NL[16];
extern const int8_t TABLE_E2M1_DOUBLED[16];
extern const uint64_t TABLE_IQ1_S[2048], TABLE_IQ2_XXS[256], TABLE_IQ2_XS[512], TABLE_IQ2_S[1024];
extern const uint32_t TABLE_IQ3_XXS[256], TABLE_IQ3_S[512];

#endif
