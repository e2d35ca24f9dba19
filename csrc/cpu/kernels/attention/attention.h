/*
 * attention.h – query heads that share a key-value head against one block of cached positions, in the flash style (Dao et al., arXiv
 * 2205.14135): a running maximum and sum, no score matrix. Bits depend on the variant's width and on how positions are cut into blocks.
 */
#ifndef CPU_KERNELS_ATTENTION_H
#define CPU_KERNELS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

enum { ATTENTION_BLOCK = 64, ATTENTION_HEADS_MAX = 64 };

/* One query head's running state; the sum of values is not yet divided by `sum`. */
typedef struct attention_state {
  float maximum, sum;
  float *values; /* [head_dim] */
} attention_state;

typedef struct attention_block {
  const uint8_t *k, *v; /* [count][head_dim] of float32 or float16 */
  uint32_t is_f16;
  uint32_t count; /* 1 to ATTENTION_BLOCK */
  uint32_t heads; /* 1 to ATTENTION_HEADS_MAX */
  uint32_t head_dim;
  const float *q; /* `q_stride` floats from head to head, scaled already */
  size_t q_stride;
  attention_state *states; /* [heads] */
} attention_block;

typedef void (*attention_block_fn)(const attention_block *b);

void attention_block_ref(const attention_block *b);
void attention_block_avx2(const attention_block *b);
void attention_block_avx512(const attention_block *b);
void attention_block_neon(const attention_block *b);

#endif
