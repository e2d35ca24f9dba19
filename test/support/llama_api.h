/*
 * llama_api.h – what two test programs need of llama.cpp's C API, by dlopen of its prebuilt libraries: no headers, no linking.
 *
 * Structs passed by value are opaque blocks larger than the real ones (they travel on the stack); the fields that are set are found by
 * the layout of the pinned version and checked against their defaults first. Include first: it asks for GNU extensions.
 */
#ifndef TEST_SUPPORT_LLAMA_API_H
#define TEST_SUPPORT_LLAMA_API_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opaque {
  uint8_t bytes[1024];
} opaque;

typedef struct batch {
  int32_t n_tokens;
  int32_t *token;
  float *embd;
  int32_t *pos, *n_seq_id;
  int32_t **seq_id;
  int8_t *logits;
} batch;

static void *library(const char *folder, const char *stem) {
  char pattern[4096];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s/lib%s*.so", folder, stem);
  if (glob(pattern, 0, NULL, &found) != 0) {
    fprintf(stderr, "no %s\n", pattern);
    exit(2);
  }
  for (size_t i = 0; i < found.gl_pathc; i++) {
    const char *name = strrchr(found.gl_pathv[i], '/') + 1 + 3 + strlen(stem);
    if (strcmp(name, ".so") == 0 || strncmp(name, ".v", 2) == 0) {
      void *handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
      if (handle != NULL) {
        return handle;
      }
      fprintf(stderr, "%s\n", dlerror());
    }
  }
  exit(2);
}

static void *symbol(void *handle, const char *name) {
  void *found = dlsym(handle, name);
  if (found == NULL) {
    fprintf(stderr, "no symbol %s\n", name);
    exit(2);
  }
  return found;
}

static void quiet(int level, const char *text, void *user) {
  (void)level;
  (void)text;
  (void)user;
}

#define LOAD(handle, type, name) __typeof__(type) name = (__typeof__(type))symbol(handle, #name)

/* 32-bit words of the context's parameters, by the layout of the pinned version. */
enum { CONTEXT_TOKENS = 0, CONTEXT_BATCH = 1, CONTEXT_UBATCH = 2, CONTEXT_SEQUENCES = 3, CONTEXT_FLASH = 13, CONTEXT_K = 26, CONTEXT_V = 27, CONTEXT_WORDS = 32 };

static inline void read_context_words(const opaque *params, uint32_t words[CONTEXT_WORDS]) {
  memcpy(words, params->bytes, CONTEXT_WORDS * sizeof *words);
  if (words[CONTEXT_TOKENS] != 512 || words[CONTEXT_BATCH] != 2048 || words[CONTEXT_UBATCH] != 512 || words[CONTEXT_SEQUENCES] != 1 ||
      words[CONTEXT_FLASH] != UINT32_MAX || words[CONTEXT_K] != 1 || words[CONTEXT_V] != 1) {
    fprintf(stderr, "the parameters have another layout than the pinned version's\n");
    exit(4);
  }
}

#endif
