/*
 * tiny_model.h – a model of both layer kinds and a prediction layer with made-up weights, for tests that drive the whole library: written to a
 * file, described, and made into an engine. One per program, as check.h; the program removes the file with drop_model().
 */
#ifndef SURGE_TEST_TINY_MODEL_H
#define SURGE_TEST_TINY_MODEL_H

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "surge.h"

enum { HIDDEN = 32, VOCAB = 16, EXPERTS = 4, FF = 32, LAYERS = 2, MAX_TENSORS = 64 };
enum { F32 = 0, Q8_0 = 8, Q8_ELEMENTS = 32, Q8_BYTES = 34 };

static const uint8_t KINDS[LAYERS] = {SURGE_LAYER_GDN, SURGE_LAYER_ATTENTION};
static char path[] = "/tmp/surge-tiny-model-XXXXXX";
static surge_tensor_desc tensors[MAX_TENSORS];
static uint32_t tensor_count;
static surge_file_desc file;
static surge_model_desc config;
static surge_plan_desc plan;
static surge_error err;

/* Matrices are Q8_0 where their rows are whole blocks, so that fast precision has something to do; the rest is F32. */
static void add(uint32_t role, int32_t layer, uint32_t rows, uint32_t cols, uint32_t experts) {
  const int blocks = rows > 1 && cols % Q8_ELEMENTS == 0;
  const uint64_t stride = (uint64_t)rows * (blocks ? cols / Q8_ELEMENTS * Q8_BYTES : cols * sizeof(float));
  tensors[tensor_count++] = (surge_tensor_desc){.struct_size = sizeof(surge_tensor_desc), .role = role, .layer = layer,
                                                .dtype = blocks ? Q8_0 : F32, .expert_count = experts, .rows = rows, .cols = cols,
                                                .scale = -1, .offset = file.bytes, .expert_stride = stride};
  file.bytes += stride * experts;
}

static void add_mixer(int32_t layer) {
  if (layer == LAYERS || KINDS[layer] == SURGE_LAYER_ATTENTION) {
    add(SURGE_ROLE_ATTN_Q, layer, 16, HIDDEN, 1);
    add(SURGE_ROLE_ATTN_K, layer, 4, HIDDEN, 1);
    add(SURGE_ROLE_ATTN_V, layer, 4, HIDDEN, 1);
    add(SURGE_ROLE_ATTN_OUT, layer, HIDDEN, 8, 1);
    add(SURGE_ROLE_ATTN_Q_NORM, layer, 1, 4, 1);
    add(SURGE_ROLE_ATTN_K_NORM, layer, 1, 4, 1);
    return;
  }
  add(SURGE_ROLE_GDN_QKV, layer, 16, HIDDEN, 1);
  add(SURGE_ROLE_GDN_Z, layer, 8, HIDDEN, 1);
  add(SURGE_ROLE_GDN_B, layer, 2, HIDDEN, 1);
  add(SURGE_ROLE_GDN_A, layer, 2, HIDDEN, 1);
  add(SURGE_ROLE_GDN_OUT, layer, HIDDEN, 8, 1);
  add(SURGE_ROLE_GDN_CONV, layer, 16, 4, 1);
  add(SURGE_ROLE_GDN_DT_BIAS, layer, 1, 2, 1);
  add(SURGE_ROLE_GDN_DECAY, layer, 1, 2, 1);
  tensors[tensor_count - 1].transform = SURGE_TRANSFORM_NEG_EXP;
  add(SURGE_ROLE_GDN_NORM, layer, 1, 4, 1);
}

static void add_layer(int32_t layer) {
  add(SURGE_ROLE_ATTN_NORM, layer, 1, HIDDEN, 1);
  add(SURGE_ROLE_FFN_NORM, layer, 1, HIDDEN, 1);
  add_mixer(layer);
  add(SURGE_ROLE_ROUTER, layer, EXPERTS, HIDDEN, 1);
  add(SURGE_ROLE_EXPERT_GATE, layer, FF, HIDDEN, EXPERTS);
  add(SURGE_ROLE_EXPERT_UP, layer, FF, HIDDEN, EXPERTS);
  add(SURGE_ROLE_EXPERT_DOWN, layer, HIDDEN, FF, EXPERTS);
  add(SURGE_ROLE_SHARED_ROUTER, layer, 1, HIDDEN, 1);
  add(SURGE_ROLE_SHARED_GATE, layer, FF, HIDDEN, 1);
  add(SURGE_ROLE_SHARED_UP, layer, FF, HIDDEN, 1);
  add(SURGE_ROLE_SHARED_DOWN, layer, HIDDEN, FF, 1);
}

static uint32_t next_random(void) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

/* Made-up weights between -1 and 1. */
static void write_tensor(FILE *out, const surge_tensor_desc *t) {
  if (t->dtype == F32) {
    for (uint64_t i = 0; i < t->expert_stride * t->expert_count / sizeof(float); i++) {
      const float value = (float)next_random() / (float)(1 << 23) - 1.0f;
      fwrite(&value, sizeof value, 1, out);
    }
    return;
  }
  for (uint64_t i = 0; i < t->expert_stride * t->expert_count / Q8_BYTES; i++) {
    uint8_t block[Q8_BYTES] = {0x00, 0x20}; /* 1/128 */
    for (uint32_t j = 2; j < Q8_BYTES; j++) {
      block[j] = (uint8_t)next_random();
    }
    fwrite(block, sizeof block, 1, out);
  }
}

static void write_model(void) {
  struct stat st;
  const int fd = mkstemp(path);
  FILE *out = fdopen(fd, "wb");
  for (uint32_t i = 0; i < tensor_count; i++) {
    write_tensor(out, &tensors[i]);
  }
  fclose(out);
  stat(path, &st);
  file.struct_size = sizeof file;
  file.path = (uint64_t)(uintptr_t)path;
  file.path_bytes = (uint32_t)strlen(path);
  file.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
  file.inode = (uint64_t)st.st_ino;
}

/* Lists the tensors, writes a file of that size and describes it. */
static void make_model(void) {
  add(SURGE_ROLE_TOKEN_EMBEDDING, -1, VOCAB, HIDDEN, 1);
  add(SURGE_ROLE_OUTPUT_NORM, -1, 1, HIDDEN, 1);
  add(SURGE_ROLE_OUTPUT, -1, VOCAB, HIDDEN, 1);
  for (int32_t layer = 0; layer < LAYERS; layer++) {
    add_layer(layer);
  }
  add_layer(LAYERS); /* predicts */
  add(SURGE_ROLE_MTP_PROJECTION, LAYERS, HIDDEN, 2 * HIDDEN, 1);
  add(SURGE_ROLE_MTP_EMBEDDING_NORM, LAYERS, 1, HIDDEN, 1);
  add(SURGE_ROLE_MTP_HIDDEN_NORM, LAYERS, 1, HIDDEN, 1);
  add(SURGE_ROLE_MTP_NORM, LAYERS, 1, HIDDEN, 1);
  write_model();
}

static surge_engine_desc describe(void) {
  config = (surge_model_desc){.struct_size = sizeof config, .layers = LAYERS, .hidden = HIDDEN, .vocab = VOCAB, .heads = 2, .kv_heads = 1,
                              .head_dim = 4, .rotary_dim = 4, .attn_gated = 1, .gdn_key_heads = 1, .gdn_value_heads = 2, .gdn_key_dim = 4,
                              .gdn_value_dim = 4, .gdn_conv = 4, .experts = EXPERTS, .experts_used = 2, .expert_ff = FF, .shared_ff = FF,
                              .norm_topk = 1, .rms_eps = 1e-6f, .rope_theta = 10000, .rope_factor = 1, .rope_attn_factor = 1,
                              .layer_kind_count = LAYERS, .mtp_layers = 1, .layer_kinds = (uint64_t)(uintptr_t)KINDS};
  plan = (surge_plan_desc){.struct_size = sizeof plan, .threads = 3, .context = 100, .sequences = 2, .step_rows = 80, .logits_rows = 2,
                           .draft_rows = 3};
  err = (surge_error){.struct_size = sizeof err};
  return (surge_engine_desc){.struct_size = sizeof(surge_engine_desc), .file_count = 1, .tensor_count = tensor_count,
                             .model = (uint64_t)(uintptr_t)&config, .plan = (uint64_t)(uintptr_t)&plan, .files = (uint64_t)(uintptr_t)&file,
                             .tensors = (uint64_t)(uintptr_t)tensors};
}

static void drop_model(void) { unlink(path); }

#endif
