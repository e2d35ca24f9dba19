/*
 * llama_oracle.c – logits of llama.cpp for token ids, through the C API of its prebuilt libraries. A child process of a test, so that
 * neither its memory nor a crash of it is ours.
 *
 * usage: llama_oracle LIB_DIR CPU MODEL OUT id,id,…   OUT: float32 [ids][vocabulary]
 * Keys and values F32, no flash attention, one thread.
 */
#include "llama_api.h"

int main(int argc, char **argv) {
  if (argc != 6) {
    return 64;
  }
  int32_t ids[512], positions[512], ones[512], zero = 0, count = 0;
  int32_t *sequences[512];
  int8_t wanted[512];
  for (char *word = strtok(argv[5], ","); word != NULL && count < 512; word = strtok(NULL, ",")) {
    ids[count] = atoi(word);
    positions[count] = count;
    ones[count] = 1;
    sequences[count] = &zero;
    wanted[count++] = 1;
  }
  library(argv[1], "ggml-base");
  void *ggml = library(argv[1], "ggml");
  void *llama = library(argv[1], "llama");
  typedef opaque (*defaults)(void);
  typedef void (*log_function)(int, const char *, void *);
  LOAD(llama, void (*)(log_function, void *), llama_log_set);
  LOAD(ggml, void *(*)(const char *), ggml_backend_load);
  LOAD(llama, defaults, llama_model_default_params);
  LOAD(llama, defaults, llama_context_default_params);
  LOAD(llama, void *(*)(const char *, opaque), llama_model_load_from_file);
  LOAD(llama, void *(*)(void *, opaque), llama_init_from_model);
  LOAD(llama, int32_t (*)(void *, batch), llama_decode);
  LOAD(llama, float *(*)(void *, int32_t), llama_get_logits_ith);
  LOAD(llama, const void *(*)(const void *), llama_model_get_vocab);
  LOAD(llama, int32_t (*)(const void *), llama_vocab_n_tokens);
  LOAD(llama, void (*)(void *, int32_t, int32_t), llama_set_n_threads);
  llama_log_set(quiet, NULL);
  char backend[4096];
  snprintf(backend, sizeof backend, "%s/libggml-cpu-%s.so", argv[1], argv[2]);
  if (ggml_backend_load(backend) == NULL) {
    fprintf(stderr, "%s does not run here\n", backend);
    return 3;
  }
  void *model = llama_model_load_from_file(argv[3], llama_model_default_params());
  opaque params = llama_context_default_params();
  uint32_t head[CONTEXT_WORDS];
  read_context_words(&params, head);
  head[CONTEXT_BATCH] = 512;
  head[CONTEXT_FLASH] = 0;
  head[CONTEXT_K] = head[CONTEXT_V] = 0; /* F32 */
  memcpy(params.bytes, head, sizeof head);
  void *context = model == NULL ? NULL : llama_init_from_model(model, params);
  if (context == NULL) {
    fprintf(stderr, "%s does not load\n", argv[3]);
    return 5;
  }
  llama_set_n_threads(context, 1, 1);
  const batch all = {count, ids, NULL, positions, ones, sequences, wanted};
  if (llama_decode(context, all) != 0) {
    return 6;
  }
  const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  FILE *out = fopen(argv[4], "wb");
  for (int32_t i = 0; i < count; i++) {
    fwrite(llama_get_logits_ith(context, i), sizeof(float), (size_t)vocab, out);
  }
  return fclose(out) == 0 ? 0 : 7;
}
