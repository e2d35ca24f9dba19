/*
 * avx512_emulated.h – AVX-512 and AMX for processors that have AVX2 only. test/csrc/CMakeLists.txt forces it into the kernel files, which are
 * otherwise compiled as they stand. SIMDe has most of the intrinsics; those that its 0.7 lacks are here, and so are AMX's tiles, which
 * refuse what the processor refuses.
 */
#ifndef SURGE_TEST_AVX512_EMULATED_H
#define SURGE_TEST_AVX512_EMULATED_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_INLINE /* unrolled kernels would take the compiler minutes */
#include <simde/x86/avx512.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What the headers of the kernels look at. */
#define __AVX512F__ 1
#define __AVX512VL__ 1
#define __AVX512VNNI__ 1

typedef union emulated512 {
  __m512i words;
  __m512 floats;
  __m256i half_words[2];
  __m256 half_floats[2];
} emulated512;

static inline __m512 emulated_cvtepi32_ps(__m512i v) {
  const emulated512 from = {.words = v};
  const emulated512 to = {.half_floats = {_mm256_cvtepi32_ps(from.half_words[0]), _mm256_cvtepi32_ps(from.half_words[1])}};
  return to.floats;
}
static inline __m512i emulated_cvtps_epi32(__m512 v) {
  const emulated512 from = {.floats = v};
  const emulated512 to = {.half_words = {_mm256_cvtps_epi32(from.half_floats[0]), _mm256_cvtps_epi32(from.half_floats[1])}};
  return to.words;
}
static inline __m512 emulated_cvtph_ps(__m256i v) {
  const emulated512 to = {.half_floats = {_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1))}};
  return to.floats;
}
static inline __m512i emulated_cvtepi16_epi32(__m256i v) {
  const emulated512 to = {
      .half_words = {_mm256_cvtepi16_epi32(_mm256_castsi256_si128(v)), _mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1))}};
  return to.words;
}
static inline __m512i emulated_srai_epi32(__m512i v, int count) {
  const emulated512 from = {.words = v};
  const __m128i by = _mm_cvtsi32_si128(count);
  const emulated512 to = {.half_words = {_mm256_sra_epi32(from.half_words[0], by), _mm256_sra_epi32(from.half_words[1], by)}};
  return to.words;
}

/* Elements of `size` bytes whose bit is set come from memory; of the others nothing is read, as by the processor. */
static inline void emulated_mask_load(void *ret, uint32_t mask, const void *p, uint32_t count, size_t size) {
  for (uint32_t i = 0; i < count; i++) {
    if (mask >> i & 1) {
      memcpy((uint8_t *)ret + i * size, (const uint8_t *)p + i * size, size);
    }
  }
}
static inline __m128i emulated128_mask_loadu_epi16(__m128i v, uint32_t mask, const void *p) {
  emulated_mask_load(&v, mask, p, 8, 2);
  return v;
}
static inline __m256i emulated256_mask_loadu_epi32(__m256i v, uint32_t mask, const void *p) {
  emulated_mask_load(&v, mask, p, 8, 4);
  return v;
}
static inline __m512i emulated_mask_loadu_epi32(__m512i v, uint32_t mask, const void *p) {
  emulated_mask_load(&v, mask, p, 16, 4);
  return v;
}
static inline __m128i emulated256_cvtepi32_epi16(__m256i v) {
  int32_t from[8];
  int16_t to[8];
  memcpy(from, &v, sizeof from);
  for (int i = 0; i < 8; i++) {
    to[i] = (int16_t)from[i];
  }
  return _mm_loadu_si128((const __m128i *)to);
}
static inline __m512i emulated_shuffle_epi32(__m512i v, int order) {
  uint32_t from[16];
  uint32_t to[16];
  memcpy(from, &v, sizeof from);
  for (int i = 0; i < 16; i++) {
    to[i] = from[i / 4 * 4 + (order >> (i % 4 * 2) & 3)];
  }
  memcpy(&v, to, sizeof to);
  return v;
}
static inline __m512i emulated_rolv_epi32(__m512i v, __m512i counts) {
  uint32_t words[16];
  uint32_t by[16];
  memcpy(words, &v, sizeof words);
  memcpy(by, &counts, sizeof by);
  for (int i = 0; i < 16; i++) {
    words[i] = words[i] << (by[i] % 32) | (uint32_t)((uint64_t)words[i] >> (32 - by[i] % 32));
  }
  memcpy(&v, words, sizeof words);
  return v;
}

#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtepi16_epi32
#undef _mm512_srai_epi32
#undef _mm_mask_loadu_epi16
#undef _mm256_mask_loadu_epi32
#undef _mm512_mask_loadu_epi32
#undef _mm256_cvtepi32_epi16
#undef _mm512_rolv_epi32
#undef _mm512_shuffle_epi32
#undef _mm512_ror_epi32
#define _mm_mask_loadu_epi16(v, mask, p) emulated128_mask_loadu_epi16(v, mask, p)
#define _mm256_mask_loadu_epi32(v, mask, p) emulated256_mask_loadu_epi32(v, mask, p)
#define _mm512_mask_loadu_epi32(v, mask, p) emulated_mask_loadu_epi32(v, mask, p)
#define _mm256_cvtepi32_epi16(v) emulated256_cvtepi32_epi16(v)
#define _mm512_shuffle_epi32(v, order) emulated_shuffle_epi32(v, order)
#define _mm512_rolv_epi32(v, counts) emulated_rolv_epi32(v, counts)
#define _mm512_ror_epi32(v, count) emulated_rolv_epi32(v, _mm512_set1_epi32(32 - (count)))
#define _mm512_cvtepi32_ps(v) emulated_cvtepi32_ps(v)
#define _mm512_cvtps_epi32(v) emulated_cvtps_epi32(v)
#define _mm512_cvtph_ps(v) emulated_cvtph_ps(v)
#define _mm512_cvtepi16_epi32(v) emulated_cvtepi16_epi32(v)
#define _mm512_srai_epi32(v, count) emulated_srai_epi32(v, count)

/* ---- tiles ---- */

enum { EMULATED_TILES = 8, EMULATED_ROWS = 16, EMULATED_BYTES = 64 };

/* As ldtilecfg reads it. */
typedef struct emulated_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} emulated_config;

static struct {
  emulated_config config; /* palette 0: no tiles */
  uint8_t data[EMULATED_TILES][EMULATED_ROWS][EMULATED_BYTES];
} emulated_amx;

/* The processor's #UD or #GP. */
static inline void emulated_require(int condition) {
  if (!condition) {
    abort();
  }
}

static inline void emulated_loadconfig(const void *p) {
  emulated_config *c = &emulated_amx.config;
  memcpy(c, p, sizeof *c);
  emulated_require(c->palette == 1 && c->start_row == 0);
  for (int i = 0; i < 14; i++) {
    emulated_require(c->reserved[i] == 0);
  }
  for (int i = 0; i < 16; i++) {
    emulated_require(i < EMULATED_TILES ? c->row_bytes[i] <= EMULATED_BYTES && c->rows[i] <= EMULATED_ROWS : c->row_bytes[i] == 0 && c->rows[i] == 0);
    emulated_require((c->row_bytes[i] == 0) == (c->rows[i] == 0));
  }
  memset(emulated_amx.data, 0, sizeof emulated_amx.data);
}

static inline void emulated_release(void) { memset(&emulated_amx, 0, sizeof emulated_amx); }

static inline void emulated_zero(int tile) {
  emulated_require(emulated_amx.config.rows[tile] > 0);
  memset(emulated_amx.data[tile], 0, sizeof emulated_amx.data[tile]);
}

static inline void emulated_loadd(int tile, const void *base, size_t stride) {
  emulated_zero(tile);
  for (int i = 0; i < emulated_amx.config.rows[tile]; i++) {
    memcpy(emulated_amx.data[tile][i], (const uint8_t *)base + (size_t)i * stride, emulated_amx.config.row_bytes[tile]);
  }
}

static inline void emulated_stored(int tile, void *base, size_t stride) {
  emulated_require(emulated_amx.config.rows[tile] > 0);
  for (int i = 0; i < emulated_amx.config.rows[tile]; i++) {
    memcpy((uint8_t *)base + (size_t)i * stride, emulated_amx.data[tile][i], emulated_amx.config.row_bytes[tile]);
  }
}

/* sum[m][n] += Σ_k Σ_i a[m][4k + i] * b[k][4n + i], both signed. */
static inline void emulated_dpbssd(int sum, int a, int b) {
  const emulated_config *c = &emulated_amx.config;
  emulated_require(sum != a && sum != b && a != b && c->rows[sum] > 0);
  emulated_require(c->rows[sum] == c->rows[a] && c->row_bytes[sum] == c->row_bytes[b] && c->row_bytes[a] == 4 * c->rows[b]);
  for (int m = 0; m < c->rows[sum]; m++) {
    for (int n = 0; n < c->row_bytes[sum] / 4; n++) {
      int32_t word;
      memcpy(&word, emulated_amx.data[sum][m] + 4 * n, sizeof word);
      for (int k = 0; k < c->row_bytes[a]; k++) {
        word += (int8_t)emulated_amx.data[a][m][k] * (int8_t)emulated_amx.data[b][k / 4][4 * n + k % 4];
      }
      memcpy(emulated_amx.data[sum][m] + 4 * n, &word, sizeof word);
    }
  }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#define _tile_loadconfig(p) emulated_loadconfig(p)
#define _tile_release() emulated_release()
#define _tile_zero(tile) emulated_zero(tile)
#define _tile_loadd(tile, base, stride) emulated_loadd((tile), (base), (stride))
#define _tile_stored(tile, base, stride) emulated_stored((tile), (base), (stride))
#define _tile_dpbssd(sum, a, b) emulated_dpbssd((sum), (a), (b))

#endif
