/*
 * llama_peer.c – speed of llama.cpp on a model, through the C API of its prebuilt libraries, with its own defaults (best CPU variant,
 * flash attention by itself, F16 keys and values). A child process of surge bench --vs llama.cpp.
 *
 * usage: llama_peer LIB_DIR MODEL THREADS prefill|decode TOKENS REPEATS   prints tokens per second, one line per run
 */
#include "../support/llama_api.h"

#include <time.h>

enum { MAX_TOKENS = 4096 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int32_t ids[MAX_TOKENS], positions[MAX_TOKENS], ones[MAX_TOKENS], zero;
static int32_t *sequences[MAX_TOKENS];
static int8_t wanted[MAX_TOKENS];

/* Arbitrary tokens `from` … `from + count`, logits of the last one. */
static batch make(int32_t from, int32_t count, int32_t vocab) {
  for (int32_t i = 0; i < count; i++) {
    ids[i] = (int32_t)((uint32_t)(from + i + 1) * 2654435761u % (uint32_t)vocab);
    positions[i] = from + i;
    ones[i] = 1;
    sequences[i] = &zero;
    wanted[i] = i + 1 == count;
  }
  return (batch){count, ids, NULL, positions, ones, sequences, wanted};
}

int main(int argc, char **argv) {
  if (argc != 7) {
    return 64;
  }
  const int32_t threads = atoi(argv[3]);
  const int decodes = strcmp(argv[4], "decode") == 0;
  const int32_t tokens = atoi(argv[5]);
  const int32_t repeats = atoi(argv[6]);
  if (tokens < 1 || tokens > MAX_TOKENS || repeats < 1) {
    return 64;
  }
  library(argv[1], "ggml-base");
  void *ggml = library(argv[1], "ggml");
  void *llama = library(argv[1], "llama");
  typedef opaque (*defaults)(void);
  typedef void (*log_function)(int, const char *, void *);
  LOAD(llama, void (*)(log_function, void *), llama_log_set);
  LOAD(ggml, void (*)(const char *), ggml_backend_load_all_from_path);
  LOAD(llama, defaults, llama_model_default_params);
  LOAD(llama, defaults, llama_context_default_params);
  LOAD(llama, void *(*)(const char *, opaque), llama_model_load_from_file);
  LOAD(llama, void *(*)(void *, opaque), llama_init_from_model);
  LOAD(llama, int32_t (*)(void *, batch), llama_decode);
  LOAD(llama, void *(*)(const void *), llama_get_memory);
  LOAD(llama, void (*)(void *, bool), llama_memory_clear);
  LOAD(llama, const void *(*)(const void *), llama_model_get_vocab);
  LOAD(llama, int32_t (*)(const void *), llama_vocab_n_tokens);
  LOAD(llama, void (*)(void *, int32_t, int32_t), llama_set_n_threads);
  llama_log_set(quiet, NULL);
  ggml_backend_load_all_from_path(argv[1]);
  void *model = llama_model_load_from_file(argv[2], llama_model_default_params());
  opaque params = llama_context_default_params();
  uint32_t words[CONTEXT_WORDS];
  read_context_words(&params, words);
  words[CONTEXT_TOKENS] = MAX_TOKENS;
  memcpy(params.bytes, words, sizeof words);
  void *context = model == NULL ? NULL : llama_init_from_model(model, params);
  if (context == NULL) {
    fprintf(stderr, "%s does not load\n", argv[2]);
    return 5;
  }
  llama_set_n_threads(context, threads, threads);
  const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  int32_t position = 0;
  llama_decode(context, make(position++, 1, vocab)); /* page faults */
  for (int32_t repeat = 0; repeat < repeats; repeat++) {
    llama_memory_clear(llama_get_memory(context), true);
    position = 0;
    const double start = now();
    if (decodes) {
      for (; position < tokens; position++) {
        llama_decode(context, make(position, 1, vocab));
      }
    } else {
      llama_decode(context, make(0, tokens, vocab));
    }
    printf("%.4f\n", tokens / (now() - start));
    fflush(stdout);
  }
  return 0;
}
