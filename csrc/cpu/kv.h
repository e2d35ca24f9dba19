/*
 * kv.h – the paged KV cache.
 *
 * A page holds KV_BLOCK positions of every attention layer of one sequence: [layer][K | V][kv head][position in page][head_dim], in
 * float32 or float16. Pages are reference-counted so that sequences can share them; a shared page is copied before it is written.
 * The pool is one block taken at start; nothing is allocated later.
 */
#ifndef CPU_KV_H
#define CPU_KV_H

#include "base/arena.h"
#include "surge.h"

enum { KV_BLOCK = 64 };

typedef struct kv_pool {
  uint8_t *pages;
  size_t page_bytes, layer_bytes, head_bytes; /* head_bytes: one head's K (or V) in a page */
  uint16_t *references; /* per page */
  uint32_t *free_list;
  uint32_t page_count, free_count;
  uint32_t head_dim, kv_heads, dtype;
} kv_pool;

uint32_t kv_pages_for(uint32_t tokens);
/* Takes everything from the arena; 0 layers means no pages. */
void kv_open(kv_pool *kv, const surge_model_desc *model, const surge_plan_desc *plan, uint32_t attention_layers, arena *memory);
/* A fresh page, or UINT32_MAX when there is none (cannot happen while sequences stay within their context). */
uint32_t kv_take(kv_pool *kv);
void kv_share(kv_pool *kv, uint32_t page);
void kv_release(kv_pool *kv, uint32_t page);
/* A page that only the caller refers to: the same one, or a copy of a shared one (which loses a reference). */
uint32_t kv_own(kv_pool *kv, uint32_t page);
void kv_store(const kv_pool *kv, uint32_t page, uint32_t layer, uint32_t head, uint32_t slot, const float *k, const float *v);
/* Where the positions of a page lie for one layer and head: keys or values [KV_BLOCK][head_dim]. */
const uint8_t *kv_block(const kv_pool *kv, uint32_t page, uint32_t layer, uint32_t is_value, uint32_t head);

#endif
