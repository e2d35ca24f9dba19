/*
 * kernels_test.c – every variant that this processor runs gives the bits of the plain one.
 * Breaks when: a variant mixes up rows, columns, scales, signs or tails, saturates, or reads past its rows (they end at a guard page).
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "cpu/dispatch.h"
#include "cpu/kernels/matmul_q8/variants.h"
#include "quant/format.h"
#include "quant/half.h"

enum { COUNT_MAX = 37, COLS_MAX = 4096 };

static uint64_t seed = 1;
static uint32_t random32(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}
static float random_float(void) { return (float)(int32_t)(random32() % 20001 - 10000) / 5000.0f; }

/* `bytes` bytes that end where an unreadable page begins. */
static uint8_t *guarded(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = (bytes + page - 1) / page * page;
  uint8_t *base = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(base != MAP_FAILED && mprotect(base + size, page, PROT_NONE) == 0);
  return base + size - bytes;
}

/* Random bits or one byte throughout, which makes sums as large as they can be. */
static void fill_block(uint8_t *block, size_t bytes) {
  static const uint8_t extremes[] = {0xff, 0x80, 0x7f, 0x00};
  const uint32_t kind = random32() % 8;
  for (size_t i = 0; i < bytes; i++) {
    block[i] = kind < 4 ? extremes[kind] : (uint8_t)random32();
  }
}

/* Scales are ordinary numbers: NaN has many encodings. */
static void fill_blocks(uint8_t *data, size_t blocks, const quant_format *f) {
  const uint32_t at = f->dtype == QUANT_Q6_K ? 208 : 0;
  for (size_t b = 0; b < blocks; b++) {
    uint8_t *block = data + b * f->block_bytes;
    fill_block(block, f->block_bytes);
    const uint16_t d = quant_f32_to_f16(random_float());
    if (f->dtype == QUANT_MXFP4) {
      block[0] = (uint8_t)(110 + random32() % 30);
      continue;
    }
    memcpy(block + at, &d, sizeof d);
    if (f->dtype == QUANT_Q4_K || f->dtype == QUANT_Q5_K) {
      const uint16_t dmin = quant_f32_to_f16(random_float());
      memcpy(block + 2, &dmin, sizeof dmin);
    }
  }
}

/* As the engine reserves them, but each array ends at a guard page. */
static q8_rows guarded_rows(uint32_t cols, uint32_t block) {
  q8_rows q = {.code_stride = (cols + 63) / 64 * 64, .scale_stride = (cols + block - 1) / block};
  q.sum_stride = q.code_stride / Q8_SUM;
  q.codes = (int8_t *)guarded(COUNT_MAX * q.code_stride);
  q.scales = (float *)(void *)guarded(COUNT_MAX * q.scale_stride * sizeof(float));
  q.sums = (int16_t *)(void *)guarded(COUNT_MAX * q.sum_stride * sizeof(int16_t));
  return q;
}

typedef float inputs[COUNT_MAX][COLS_MAX];

static q8_rows quantise(inputs values, uint32_t cols, uint32_t block, int extreme) {
  const q8_rows q = guarded_rows(cols, block);
  for (uint32_t t = 0; t < COUNT_MAX; t++) {
    for (uint32_t i = 0; i < cols; i++) {
      const uint32_t positive = t % 3 == 0 ? random32() % 2 : t % 3 == 1;
      values[t][i] = !extreme ? random_float() : positive ? 1.0f : -1.0f;
    }
    quantise_q8_ref(values[t], cols, block, q.codes + t * q.code_stride, q.scales + t * q.scale_stride, q.sums + t * q.sum_stride);
  }
  return q;
}

/* All rows through one table's kernel, tile by tile, into ret[count][rows]. */
static void run(const cpu_kernels *k, uint32_t kernel, const uint8_t *weights, size_t row_bytes, uint32_t rows, q8_multiply m, float *ret) {
  float tile[COUNT_MAX * Q8_TILE_ROWS_MAX];
  m.ret = tile;
  for (uint32_t first = 0; first < rows; first += k->tile_rows) {
    for (uint32_t i = 0; i < k->tile_rows; i++) {
      m.rows[i] = weights + (first + i < rows ? first + i : rows - 1) * row_bytes;
    }
    m.ahead = first + 2 * k->tile_rows <= rows ? k->tile_rows * row_bytes : 0;
    k->matmul_q8[kernel](&m);
    for (uint32_t t = 0; t < m.count; t++) {
      for (uint32_t i = 0; i < k->tile_rows && first + i < rows; i++) {
        ret[t * rows + first + i] = tile[t * k->tile_rows + i];
      }
    }
  }
}

/* Rows that follow each other and end at a guard page, against what the plain kernel made of them. */
static void check_gemv(const cpu_kernels *k, uint32_t kernel, const char *name, const uint8_t *weights, size_t row_bytes, uint32_t rows,
                       const q8_multiply *m, const float *expected) {
  const uint32_t skipped = rows % GEMV_ROWS;
  static float actual[64];
  if (k->gemv_q8[kernel] == NULL || !gemv_q8_fits(m->cols)) {
    return;
  }
  for (uint32_t t = 0; t < m->count; t++) {
    k->gemv_q8[kernel](&(gemv_q8){weights + skipped * row_bytes, rows - skipped, m->cols, m->tokens[t], m->x, actual});
    if (memcmp(actual, expected + t * rows + skipped, (rows - skipped) * sizeof(float)) != 0 && check_failed_at(__FILE__, __LINE__)) {
      printf("%s %s, %u columns: gemv differs from ref\n", k->name, name, m->cols);
    }
  }
}

static void compare_matmul(const cpu_kernels *k, const char *name, uint32_t rows, const q8_multiply *m, const float *actual, const float *expected) {
  for (uint32_t i = 0; i < m->count * rows; i++) {
    if (quant_f32_to_bits(actual[i]) != quant_f32_to_bits(expected[i])) {
      if (check_failed_at(__FILE__, __LINE__)) {
        printf("%s %s, %u columns, %u rows of x: %u of row %u is %g, not %g\n", k->name, name, m->cols, m->count, i % rows, i / rows,
               (double)actual[i], (double)expected[i]);
      }
      break;
    }
  }
}

/* Every other variant against the plain one. */
static void check_matmul(uint32_t kernel, uint32_t dtype, uint32_t block, uint32_t cols, uint32_t count, int extreme) {
  enum { ROWS = 37 };
  static inputs in;
  const quant_format *f = quant_format_find(dtype);
  const size_t row_bytes = (size_t)cols / f->block_elements * f->block_bytes;
  uint8_t *weights = guarded(ROWS * row_bytes);
  fill_blocks(weights, ROWS * row_bytes / f->block_bytes, f);
  const q8_rows x = quantise(in, cols, block, extreme);
  uint32_t tokens[COUNT_MAX]; /* neighbours or not, always with the last one, which ends at a guard page */
  for (uint32_t t = 0; t < count; t++) {
    tokens[t] = extreme ? COUNT_MAX - count + t : (COUNT_MAX - 1 + t * 5) % COUNT_MAX;
  }
  const q8_multiply m = {.cols = cols, .count = count, .tokens = tokens, .x = &x};
  static float expected[COUNT_MAX * ROWS];
  static float actual[COUNT_MAX * ROWS];
  run(cpu_dispatch_at(0), kernel, weights, row_bytes, ROWS, m, expected);
  for (uint32_t v = 1; cpu_dispatch_at(v) != NULL; v++) {
    const cpu_kernels *k = cpu_dispatch_at(v);
    run(k, kernel, weights, row_bytes, ROWS, m, actual);
    check_gemv(k, kernel, f->name, weights, row_bytes, ROWS, &m, expected);
    compare_matmul(k, f->name, ROWS, &m, actual, expected);
  }
}

/* The plain kernel against decoded weights and dequantised activations in float64: it is the specification's own check. */
static void check_ref(uint32_t kernel, uint32_t dtype, uint32_t block) {
  static inputs in;
  enum { COLS = 512 };
  const quant_format *f = quant_format_find(dtype);
  const size_t row_bytes = (size_t)COLS / f->block_elements * f->block_bytes;
  uint8_t *weights = guarded(row_bytes);
  fill_blocks(weights, row_bytes / f->block_bytes, f);
  const q8_rows x = quantise(in, COLS, block, 0);
  float w[COLS];
  f->decode(weights, w, COLS / f->block_elements);
  double expected = 0;
  double size = 0;
  for (uint32_t i = 0; i < COLS; i++) {
    const double activation = (double)x.codes[i] * (double)x.scales[i / block];
    const double value = (double)w[i] * activation;
    expected += value;
    size += fabs(value);
    CHECK(fabs(activation - (double)in[0][i]) <= 0.5000001 * (double)x.scales[i / block] + 1e-6);
  }
  float actual = 0;
  const uint32_t token = 0;
  run(cpu_dispatch_at(0), kernel, weights, row_bytes, 1, (q8_multiply){.cols = COLS, .count = 1, .tokens = &token, .x = &x}, &actual);
  if (fabs((double)actual - expected) > 1e-6 * size) {
    if (check_failed_at(__FILE__, __LINE__)) {
      printf("ref %s is %g, not %g\n", f->name, (double)actual, expected);
    }
  }
}

static void check_format(uint32_t kernel, uint32_t dtype, uint32_t block) {
  const uint32_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
  check_ref(kernel, dtype, block);
  for (uint32_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    check_matmul(kernel, dtype, block, 512, counts[c], 0);
    check_matmul(kernel, dtype, block, 1024, counts[c], 1);
    check_matmul(kernel, dtype, block, 256, counts[c], 0);
    if (counts[c] % 8 == 1) { /* long rows add larger sums to this, not other shapes; on an emulated processor they take half a minute */
      check_matmul(kernel, dtype, block, 4096, counts[c], 1);
    }
    if (block == 32 && dtype != QUANT_IQ4_XS) { /* rows that end within a chunk */
      check_matmul(kernel, dtype, block, 32, counts[c], 0);
      check_matmul(kernel, dtype, block, 352, counts[c], 1);
    }
  }
}

static void check_quantise(const cpu_kernels *k, uint32_t n, uint32_t block, float largest) {
  float x[COLS_MAX] = {0};
  int8_t codes[2][COLS_MAX];
  float scales[2][COLS_MAX / 32];
  int16_t sums[2][COLS_MAX / 16];
  for (uint32_t i = 0; i < n; i++) {
    x[i] = random32() % 5 == 0 ? largest * (float)((int)(random32() % 255) - 127) / 254.0f : random_float() * largest; /* many ties */
  }
  quantise_q8_ref(x, n, block, codes[0], scales[0], sums[0]);
  k->quantise_q8(x, n, block, codes[1], scales[1], sums[1]);
  CHECK(memcmp(codes[0], codes[1], n) == 0);
  CHECK(memcmp(scales[0], scales[1], (n + block - 1) / block * sizeof(float)) == 0);
  CHECK(memcmp(sums[0], sums[1], n / 16 * sizeof(int16_t)) == 0);
  x[n / 2] = NAN;
  k->quantise_q8(x, n, block, codes[1], scales[1], sums[1]);
  CHECK(isnan(scales[1][n / 2 / block]));
  x[n / 2] = INFINITY;
  k->quantise_q8(x, n, block, codes[1], scales[1], sums[1]);
  CHECK(!isfinite(scales[1][n / 2 / block]));
}

static void check_dot(const cpu_kernels *k, uint32_t n) {
  static float x[COUNT_MAX][COLS_MAX];
  float w[COLS_MAX];
  float results[2][COUNT_MAX];
  uint32_t tokens[COUNT_MAX];
  for (uint32_t i = 0; i < n; i++) {
    w[i] = random_float();
    for (uint32_t t = 0; t < COUNT_MAX; t++) {
      x[t][i] = random_float();
      tokens[t] = (t * 2 + 1) % COUNT_MAX;
    }
  }
  dot_f32_ref(&(dot_f32_rows){w, x[0], COLS_MAX, 1, tokens, results[0], n, COUNT_MAX});
  k->dot_f32(&(dot_f32_rows){w, x[0], COLS_MAX, 1, tokens, results[1], n, COUNT_MAX});
  CHECK(memcmp(results[0], results[1], sizeof results[0]) == 0);
  k->dot_f32(&(dot_f32_rows){w, x[0], COLS_MAX, 1, tokens + 6, results[1], n, 1});
  CHECK(memcmp(&results[0][6], &results[1][0], sizeof(float)) == 0);
}

static void check_gdn(const cpu_kernels *k, uint32_t key_dim, uint32_t value_dim) {
  enum { TOKENS = 5, STRIDE = 640, MAX = 160 };
  static float state[3][MAX * MAX];
  static float rows[TOKENS][STRIDE];
  static float ret[3][TOKENS][MAX];
  float decay[TOKENS];
  float beta[TOKENS];
  for (uint32_t t = 0; t < TOKENS; t++) {
    decay[t] = 0.5f + fabsf(random_float()) / 8;
    beta[t] = fabsf(random_float()) / 2;
    for (uint32_t i = 0; i < STRIDE; i++) {
      rows[t][i] = random_float() / 8;
    }
  }
  for (uint32_t i = 0; i < key_dim * value_dim; i++) {
    state[0][i] = state[1][i] = state[2][i] = random_float();
  }
  gdn_span s = {state[0], rows[0], rows[0] + 160, rows[0] + 320, decay, beta, ret[0][0], STRIDE, 1, MAX, TOKENS, key_dim, value_dim};
  gdn_recur_ref(&s);
  s.state = state[1];
  s.ret = ret[1][0];
  k->gdn_recur(&s);
  CHECK(memcmp(state[0], state[1], key_dim * value_dim * sizeof(float)) == 0);
  for (uint32_t t = 0; t < TOKENS; t++) {
    CHECK(memcmp(ret[0][t], ret[1][t], value_dim * sizeof(float)) == 0);
    /* One token at a time: the same bits. */
    gdn_span one = {state[2], rows[t], rows[t] + 160, rows[t] + 320, decay + t, beta + t, ret[2][t], STRIDE, 1, MAX, 1, key_dim, value_dim};
    k->gdn_recur(&one);
    CHECK(memcmp(ret[1][t], ret[2][t], value_dim * sizeof(float)) == 0);
  }
}

/* The definition, token by token in float64. */
static void check_gdn_definition(void) {
  enum { N = 80 };
  /* Where element (i, j) lies: slices of GDN_SLICE columns. */
#define AT(i, j) ((j) / GDN_SLICE * GDN_SLICE * N + (i) * ((j) < GDN_SLICE ? GDN_SLICE : N - GDN_SLICE) + (j) % GDN_SLICE)
  float state[N * N];
  float ret[N];
  double s[N][N];
  float q[N], key[N], v[N];
  const float decay = 0.75f;
  const float beta = 0.5f;
  for (uint32_t i = 0; i < N; i++) {
    q[i] = random_float() / 8;
    key[i] = random_float() / 8;
    v[i] = random_float();
    for (uint32_t j = 0; j < N; j++) {
      state[AT(i, j)] = random_float();
      s[i][j] = (double)state[AT(i, j)] * (double)decay;
    }
  }
  gdn_recur_ref(&(gdn_span){state, q, key, v, &decay, &beta, ret, N, 1, N, 1, N, N});
  for (uint32_t j = 0; j < N; j++) {
    double memory = 0;
    for (uint32_t i = 0; i < N; i++) {
      memory += s[i][j] * (double)key[i];
    }
    const double delta = (double)beta * ((double)v[j] - memory);
    double out = 0;
    for (uint32_t i = 0; i < N; i++) {
      s[i][j] += (double)key[i] * delta;
      CHECK(fabs(s[i][j] - (double)state[AT(i, j)]) < 1e-5);
      out += s[i][j] * (double)q[i];
    }
    CHECK(fabs(out - (double)ret[j]) < 1e-5);
  }
}

/* Three blocks of keys and values against softmax in float64. The tolerance is that of float32 sums of this length. */
static void check_attention(const cpu_kernels *k, uint32_t heads, uint32_t head_dim, uint32_t is_f16) {
  enum { POSITIONS = 2 * ATTENTION_BLOCK + 13, DIM_MAX = 256, HEADS = 9 };
  static float kv[2][POSITIONS][DIM_MAX];
  static uint8_t stored[2][POSITIONS * DIM_MAX * 4];
  static float q[HEADS][DIM_MAX];
  static float values[HEADS][DIM_MAX];
  attention_state states[HEADS];
  const uint32_t bytes = is_f16 ? 2 : 4;
  for (uint32_t side = 0; side < 2; side++) {
    for (uint32_t i = 0; i < POSITIONS * head_dim; i++) {
      const uint16_t half = quant_f32_to_f16(random_float());
      const float value = quant_f16_to_f32(half);
      kv[side][i / head_dim][i % head_dim] = value;
      memcpy(stored[side] + i * bytes, is_f16 ? (const void *)&half : (const void *)&value, bytes);
    }
  }
  for (uint32_t h = 0; h < heads; h++) {
    states[h] = (attention_state){-INFINITY, 0, values[h]};
    for (uint32_t d = 0; d < head_dim; d++) {
      q[h][d] = random_float() / 4;
      values[h][d] = 0;
    }
  }
  for (uint32_t first = 0; first < POSITIONS; first += ATTENTION_BLOCK) {
    const uint32_t count = POSITIONS - first < ATTENTION_BLOCK ? POSITIONS - first : ATTENTION_BLOCK;
    const size_t at = (size_t)first * head_dim * bytes;
    k->attention_block(&(attention_block){stored[0] + at, stored[1] + at, is_f16, count, heads, head_dim, q[0], DIM_MAX, states});
  }
  for (uint32_t h = 0; h < heads; h++) {
    double scores[POSITIONS];
    double top = -INFINITY;
    double sum = 0;
    for (uint32_t j = 0; j < POSITIONS; j++) {
      scores[j] = 0;
      for (uint32_t d = 0; d < head_dim; d++) {
        scores[j] += (double)q[h][d] * (double)kv[0][j][d];
      }
      top = scores[j] > top ? scores[j] : top;
    }
    for (uint32_t j = 0; j < POSITIONS; j++) {
      scores[j] = exp(scores[j] - top);
      sum += scores[j];
    }
    for (uint32_t d = 0; d < head_dim; d++) {
      double expected = 0;
      for (uint32_t j = 0; j < POSITIONS; j++) {
        expected += scores[j] / sum * (double)kv[1][j][d];
      }
      CHECK(fabs(expected - (double)(values[h][d] / states[h].sum)) < 2e-5);
    }
  }
}

static void check_elementwise(const cpu_kernels *k, uint32_t n) {
  float x[2][COLS_MAX], convolved[2][COLS_MAX], y[COLS_MAX], w[COLS_MAX];
  for (uint32_t i = 0; i < n; i++) {
    x[0][i] = x[1][i] = random_float() * 20;
    y[i] = random_float() * 40;
    w[i] = random_float();
  }
  const elementwise_kernels *tables[2] = {&elementwise_ref, k->elementwise};
  for (int v = 0; v < 2; v++) {
    const float *taps[3] = {y, w, y};
    tables[v]->norm_rms(x[v], w, n, 1e-6f, x[v]);
    tables[v]->swiglu(x[v], y, n);
    tables[v]->gate_sigmoid(x[v], y, n);
    tables[v]->norm_gated(x[v], w, y, n, 1e-6f);
    tables[v]->add_scaled(x[v], y, 0.37f, n);
    tables[v]->norm_l2(x[v], n, 1e-6f, 0.5f);
    tables[v]->convolve(taps, 3, y, 0, n, convolved[v]);
  }
  CHECK(memcmp(x[0], x[1], n * sizeof(float)) == 0);
  CHECK(memcmp(convolved[0], convolved[1], n * sizeof(float)) == 0);
}

/* Against libm, over the whole range and beyond. */
static void check_sigmoid(void) {
  for (float gate = -100; gate < 100; gate += 0.173f) {
    float x = 1;
    elementwise_ref.gate_sigmoid(&x, &gate, 1);
    const double expected = 1 / (1 + exp(-(double)gate));
    CHECK(fabs((double)x - expected) <= 4e-7 * expected + 2e-38);
  }
  float x = 1;
  const float gate = NAN;
  elementwise_ref.gate_sigmoid(&x, &gate, 1);
  CHECK(isnan(x));
}

TEST(matmul_q8) {
#define X(format, block) check_format(MATMUL_Q8_##format, QUANT_##format, (block));
  MATMUL_Q8_FORMATS(X)
#undef X
}

TEST(quantise_q8) {
  for (uint32_t v = 0; cpu_dispatch_at(v) != NULL; v++) {
    check_quantise(cpu_dispatch_at(v), 256, 32, 1.0f);
    check_quantise(cpu_dispatch_at(v), 1024, 256, 1e4f);
    check_quantise(cpu_dispatch_at(v), 352, 256, 1e-35f);
    check_quantise(cpu_dispatch_at(v), 64, 32, 1e-3f);
  }
}

TEST(dot_f32_and_elementwise) {
  const uint32_t sizes[] = {1, 3, 16, 17, 64, 100, 1023};
  check_sigmoid();
  for (uint32_t v = 0; cpu_dispatch_at(v) != NULL; v++) {
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      check_dot(cpu_dispatch_at(v), sizes[i]);
      check_elementwise(cpu_dispatch_at(v), sizes[i]);
    }
  }
}

TEST(gdn) {
  check_gdn_definition();
  for (uint32_t v = 0; cpu_dispatch_at(v) != NULL; v++) {
    check_gdn(cpu_dispatch_at(v), 128, 128);
    check_gdn(cpu_dispatch_at(v), 16, 24);
    check_gdn(cpu_dispatch_at(v), 12, 70);
  }
}

TEST(attention) {
  for (uint32_t v = 0; cpu_dispatch_at(v) != NULL; v++) {
    for (uint32_t f16 = 0; f16 < 2; f16++) {
      check_attention(cpu_dispatch_at(v), 8, 256, f16);
      check_attention(cpu_dispatch_at(v), 9, 64, f16);
      check_attention(cpu_dispatch_at(v), 3, 20, f16);
      check_attention(cpu_dispatch_at(v), 1, 128, f16);
    }
  }
}

int main(void) {
  for (uint32_t v = 0; cpu_dispatch_at(v) != NULL; v++) {
    printf("kernels of %s run here\n", cpu_dispatch_at(v)->name);
  }
  RUN(matmul_q8);
  RUN(quantise_q8);
  RUN(dot_f32_and_elementwise);
  RUN(gdn);
  RUN(attention);
  return check_done();
}
