/* attention.c – see attention.h. */
#include "cpu/attention.h"

#include <math.h>

#include "cpu/kernels/dot_f32/dot_f32.h"

size_t attention_buffer_floats(uint32_t head_dim) { return KV_BLOCK + (size_t)head_dim; }

static float score_block(const kv_pool *kv, uint32_t page, uint32_t layer, uint32_t kv_head, uint32_t count, const float *q, float *scores,
                         float *vector) {
  const float scale = 1.0f / sqrtf((float)kv->head_dim);
  float maximum = -INFINITY;
  for (uint32_t i = 0; i < count; i++) {
    kv_load(kv, page, layer, 0, kv_head, i, vector);
    scores[i] = dot_f32(q, vector, kv->head_dim) * scale;
    maximum = fmaxf(maximum, scores[i]);
  }
  return maximum;
}

void attention_head(const kv_pool *kv, const uint32_t *pages, uint32_t layer, uint32_t kv_head, uint32_t position, const float *q,
                    float *buffer, float *ret) {
  float *scores = buffer;
  float *vector = buffer + KV_BLOCK;
  float maximum = -INFINITY;
  float sum = 0;
  for (uint32_t d = 0; d < kv->head_dim; d++) {
    ret[d] = 0;
  }
  for (uint32_t block = 0; block <= position / KV_BLOCK; block++) {
    const uint32_t first = block * KV_BLOCK;
    const uint32_t count = position - first < KV_BLOCK ? position - first + 1 : KV_BLOCK;
    const float block_maximum = score_block(kv, pages[block], layer, kv_head, count, q, scores, vector);
    const float new_maximum = fmaxf(maximum, block_maximum);
    const float keep = expf(maximum - new_maximum); /* 0 for the first block: exp(-inf) */
    sum *= keep;
    for (uint32_t d = 0; d < kv->head_dim; d++) {
      ret[d] *= keep;
    }
    for (uint32_t i = 0; i < count; i++) {
      const float weight = expf(scores[i] - new_maximum);
      kv_load(kv, pages[block], layer, 1, kv_head, i, vector);
      sum += weight;
      for (uint32_t d = 0; d < kv->head_dim; d++) {
        ret[d] += weight * vector[d];
      }
    }
    maximum = new_maximum;
  }
  for (uint32_t d = 0; d < kv->head_dim; d++) {
    ret[d] /= sum;
  }
}
