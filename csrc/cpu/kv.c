/* kv.c – see kv.h. */
#include "cpu/kv.h"

#include <string.h>

#include "quant/half.h"

uint32_t kv_pages_for(uint32_t tokens) { return tokens / KV_BLOCK + (tokens % KV_BLOCK != 0); }

void kv_open(kv_pool *kv, const surge_model_desc *model, const surge_plan_desc *plan, uint32_t attention_layers, arena *memory) {
  const size_t element = plan->kv_dtype == SURGE_KV_F16 ? 2 : 4;
  *kv = (kv_pool){.head_dim = model->head_dim, .kv_heads = model->kv_heads, .dtype = plan->kv_dtype};
  kv->head_bytes = element * KV_BLOCK * model->head_dim;
  kv->layer_bytes = kv->head_bytes * model->kv_heads * 2;
  kv->page_bytes = kv->layer_bytes * attention_layers;
  kv->page_count = attention_layers == 0 ? 0 : plan->sequences * kv_pages_for(plan->context);
  kv->pages = arena_take_array(memory, kv->page_count, kv->page_bytes, 64);
  kv->references = arena_take(memory, kv->page_count * sizeof(uint16_t), _Alignof(uint16_t));
  kv->free_list = arena_take(memory, kv->page_count * sizeof(uint32_t), _Alignof(uint32_t));
  if (arena_measuring(memory) || kv->free_list == NULL) {
    return;
  }
  for (uint32_t i = 0; i < kv->page_count; i++) {
    kv->free_list[i] = kv->page_count - 1 - i;
  }
  kv->free_count = kv->page_count;
}

uint32_t kv_take(kv_pool *kv) {
  if (kv->free_count == 0) {
    return UINT32_MAX;
  }
  const uint32_t page = kv->free_list[--kv->free_count];
  kv->references[page] = 1;
  return page;
}

void kv_share(kv_pool *kv, uint32_t page) { kv->references[page]++; }

void kv_release(kv_pool *kv, uint32_t page) {
  if (--kv->references[page] == 0) {
    kv->free_list[kv->free_count++] = page;
  }
}

uint32_t kv_own(kv_pool *kv, uint32_t page) {
  if (kv->references[page] == 1) {
    return page;
  }
  const uint32_t copy = kv_take(kv);
  if (copy != UINT32_MAX) {
    memcpy(kv->pages + copy * kv->page_bytes, kv->pages + page * kv->page_bytes, kv->page_bytes);
    kv_release(kv, page);
  }
  return copy;
}

static uint8_t *slot_at(const kv_pool *kv, uint32_t page, uint32_t layer, uint32_t is_value, uint32_t head, uint32_t slot) {
  const size_t heads = (size_t)is_value * kv->kv_heads + head;
  return kv->pages + page * kv->page_bytes + layer * kv->layer_bytes + heads * kv->head_bytes + slot * (kv->head_bytes / KV_BLOCK);
}

const uint8_t *kv_block(const kv_pool *kv, uint32_t page, uint32_t layer, uint32_t is_value, uint32_t head) {
  return slot_at(kv, page, layer, is_value, head, 0);
}

static void store_vector(const kv_pool *kv, uint8_t *to, const float *values) {
  if (kv->dtype == SURGE_KV_F32) {
    memcpy(to, values, kv->head_dim * sizeof(float));
    return;
  }
  for (uint32_t i = 0; i < kv->head_dim; i++) {
    const uint16_t half = quant_f32_to_f16(values[i]);
    memcpy(to + i * sizeof half, &half, sizeof half);
  }
}

void kv_store(const kv_pool *kv, uint32_t page, uint32_t layer, uint32_t head, uint32_t slot, const float *k, const float *v) {
  store_vector(kv, slot_at(kv, page, layer, 0, head, slot), k);
  store_vector(kv, slot_at(kv, page, layer, 1, head, slot), v);
}
