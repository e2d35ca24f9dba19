/* body.h – one block of attention once for all widths. Included by the variants only. */
#include "cpu/kernels/attention/attention.h"
#include "cpu/kernels/lanes.h"

/* Heads and positions, or heads and vectors, that are worked on together: their sums fill the registers. */
enum { HEADS = 4, POSITIONS = 2, WIDE = 2 };

LANES_INLINE lanes load_kv(const uint8_t *p, uint32_t is_f16) {
  if (is_f16) {
    return lanes_load_f16(p);
  }
  float values[LANES];
  memcpy(values, p, sizeof values);
  return lanes_load(values);
}

LANES_INLINE float load_one(const uint8_t *p, uint32_t is_f16) {
  float value;
  uint16_t half;
  memcpy(&half, p, sizeof half);
  if (is_f16) {
    return quant_f16_to_f32(half);
  }
  memcpy(&value, p, sizeof value);
  return value;
}

/* scores[h][j] = q_h · k_j for `heads` heads from `head` on and `positions` positions from `position` on. */
LANES_INLINE void score(const attention_block *b, uint32_t head, uint32_t position, float (*scores)[ATTENTION_BLOCK], const uint32_t heads,
                        const uint32_t positions, const uint32_t is_f16) {
  const uint32_t bytes = is_f16 ? 2 : 4;
  lanes sums[HEADS][POSITIONS];
#pragma GCC unroll 16
  for (uint32_t h = 0; h < heads; h++) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < positions; j++) {
      sums[h][j] = lanes_set(0);
    }
  }
  uint32_t d = 0;
  for (; d + LANES <= b->head_dim; d += LANES) {
    lanes k[POSITIONS];
#pragma GCC unroll 16
    for (uint32_t j = 0; j < positions; j++) {
      k[j] = load_kv(b->k + ((size_t)(position + j) * b->head_dim + d) * bytes, is_f16);
    }
#pragma GCC unroll 16
    for (uint32_t h = 0; h < heads; h++) {
      const lanes q = lanes_load(b->q + (head + h) * b->q_stride + d);
#pragma GCC unroll 16
      for (uint32_t j = 0; j < positions; j++) {
        sums[h][j] = lanes_fma(q, k[j], sums[h][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (uint32_t h = 0; h < heads; h++) {
#pragma GCC unroll 16
    for (uint32_t j = 0; j < positions; j++) {
      float sum = lanes_sum(sums[h][j]);
      for (uint32_t e = d; e < b->head_dim; e++) {
        sum = fmaf(b->q[(head + h) * b->q_stride + e], load_one(b->k + ((size_t)(position + j) * b->head_dim + e) * bytes, is_f16), sum);
      }
      scores[head + h][position + j] = sum;
    }
  }
}

/*
 * Values are read across, a few columns of all positions at a time, which no prefetcher follows; so they are fetched while the keys are
 * multiplied.
 */
LANES_INLINE void fetch_values(const attention_block *b, uint32_t position, uint32_t positions, const uint32_t is_f16) {
  const size_t bytes = (size_t)b->head_dim * (is_f16 ? 2 : 4);
  const uint8_t *from = b->v + position * bytes;
  for (size_t at = 0; at < positions * bytes; at += 64) {
    __builtin_prefetch(from + at, 0, 2);
  }
}

LANES_INLINE void score_heads(const attention_block *b, uint32_t head, float (*scores)[ATTENTION_BLOCK], const uint32_t heads,
                              const uint32_t is_f16) {
  uint32_t j = 0;
  for (; j + POSITIONS <= b->count; j += POSITIONS) {
    if (head == 0) {
      fetch_values(b, j, POSITIONS, is_f16);
    }
    score(b, head, j, scores, heads, POSITIONS, is_f16);
  }
  for (; j < b->count; j++) {
    score(b, head, j, scores, heads, 1, is_f16);
  }
}

/* values_h += Σ_j p_h[j] v_j over `vectors` vectors from element `d` on. */
LANES_INLINE void gather(const attention_block *b, uint32_t head, uint32_t d, float (*p)[ATTENTION_BLOCK], const uint32_t heads,
                         const uint32_t vectors, const uint32_t is_f16) {
  const uint32_t bytes = is_f16 ? 2 : 4;
  lanes sums[HEADS][WIDE];
#pragma GCC unroll 16
  for (uint32_t h = 0; h < heads; h++) {
#pragma GCC unroll 16
    for (uint32_t w = 0; w < vectors; w++) {
      sums[h][w] = lanes_load(b->states[head + h].values + d + w * LANES);
    }
  }
  for (uint32_t j = 0; j < b->count; j++) {
    lanes v[WIDE];
#pragma GCC unroll 16
    for (uint32_t w = 0; w < vectors; w++) {
      v[w] = load_kv(b->v + ((size_t)j * b->head_dim + d + w * LANES) * bytes, is_f16);
    }
#pragma GCC unroll 16
    for (uint32_t h = 0; h < heads; h++) {
      const lanes weight = lanes_set(p[head + h][j]);
#pragma GCC unroll 16
      for (uint32_t w = 0; w < vectors; w++) {
        sums[h][w] = lanes_fma(weight, v[w], sums[h][w]);
      }
    }
  }
#pragma GCC unroll 16
  for (uint32_t h = 0; h < heads; h++) {
#pragma GCC unroll 16
    for (uint32_t w = 0; w < vectors; w++) {
      lanes_store(b->states[head + h].values + d + w * LANES, sums[h][w]);
    }
  }
}

LANES_INLINE void gather_heads(const attention_block *b, uint32_t head, float (*p)[ATTENTION_BLOCK], const uint32_t heads, const uint32_t is_f16) {
  const uint32_t bytes = is_f16 ? 2 : 4;
  uint32_t d = 0;
  for (; d + WIDE * LANES <= b->head_dim; d += WIDE * LANES) {
    gather(b, head, d, p, heads, WIDE, is_f16);
  }
  for (; d + LANES <= b->head_dim; d += LANES) {
    gather(b, head, d, p, heads, 1, is_f16);
  }
  for (; d < b->head_dim; d++) {
#pragma GCC unroll 16
    for (uint32_t h = 0; h < heads; h++) {
      float *value = b->states[head + h].values + d;
      for (uint32_t j = 0; j < b->count; j++) {
        *value = fmaf(p[head + h][j], load_one(b->v + ((size_t)j * b->head_dim + d) * bytes, is_f16), *value);
      }
    }
  }
}

/* Scores to weights exp(score - maximum), the state rescaled to the new maximum. The tail of the block counts as -infinity. */
static void soften(attention_state *s, float *scores, uint32_t count, uint32_t head_dim) {
  float maximum = s->maximum;
  for (uint32_t j = 0; j < count; j++) {
    maximum = scores[j] > maximum ? scores[j] : maximum;
  }
  float keep[LANES];
  lanes_store(keep, lanes_exp(lanes_set(s->maximum - maximum)));
  const float factor = s->maximum == maximum ? 1.0f : keep[0];
  float sum = s->sum * factor;
  for (uint32_t j = 0; j < ATTENTION_BLOCK; j += LANES) {
    lanes_store(scores + j, lanes_exp(lanes_add(lanes_load(scores + j), lanes_set(-maximum))));
  }
  for (uint32_t j = 0; j < count; j++) {
    sum += scores[j];
  }
  for (uint32_t d = 0; factor != 1.0f && d < head_dim; d++) {
    s->values[d] *= factor;
  }
  s->maximum = maximum;
  s->sum = sum;
}

LANES_INLINE void block_of(const attention_block *b, const uint32_t is_f16) {
  float scores[ATTENTION_HEADS_MAX][ATTENTION_BLOCK];
  uint32_t h = 0;
  for (; h + HEADS <= b->heads; h += HEADS) {
    score_heads(b, h, scores, HEADS, is_f16);
  }
  for (; h < b->heads; h++) {
    score_heads(b, h, scores, 1, is_f16);
  }
  for (h = 0; h < b->heads; h++) {
    for (uint32_t j = b->count; j < ATTENTION_BLOCK; j++) {
      scores[h][j] = -INFINITY; /* its weight is computed and not used */
    }
    soften(&b->states[h], scores[h], b->count, b->head_dim);
  }
  for (h = 0; h + HEADS <= b->heads; h += HEADS) {
    gather_heads(b, h, scores, HEADS, is_f16);
  }
  for (; h < b->heads; h++) {
    gather_heads(b, h, scores, 1, is_f16);
  }
}

static void run_block(const attention_block *b) {
  if (b->is_f16) {
    block_of(b, 1);
  } else {
    block_of(b, 0);
  }
}
