/* body.h – the recurrence once for all widths. Included by the variants only. */
#include "cpu/kernels/gdn/gdn.h"
#include "cpu/kernels/lanes.h"

/* Vectors of columns that are worked on together: enough sums at once to hide the latency of a fused multiplication. */
enum { VECTORS = 4 };

/* Neighbouring columns of a slice: `width` apart are the rows of `state`. */
typedef struct columns {
  float *state;
  uint32_t width;
  const float *v; /* of the first token */
  float *ret;
} columns;

/* What is read of the state for a token: Sᵀk and Sᵀq. */
typedef struct reads {
  lanes by_k[VECTORS], by_q[VECTORS];
} reads;

LANES_INLINE void add_row(reads *r, const lanes row, float k, float q, int j) {
  r->by_k[j] = lanes_fma(row, lanes_set(k), r->by_k[j]);
  r->by_q[j] = lanes_fma(row, lanes_set(q), r->by_q[j]);
}

LANES_INLINE void read_state(const gdn_span *s, const columns *c, const int n, reads *r) {
  for (uint32_t i = 0; i < s->key_dim; i++) {
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
      add_row(r, lanes_load(c->state + (size_t)i * c->width + j * LANES), s->k[i], s->q[i], j);
    }
  }
}

/* The token's delta and its output; qk = q·k corrects what was read before the delta is written. */
LANES_INLINE void put_out(const gdn_span *s, const columns *c, const int n, uint32_t token, float qk, const reads *r, lanes *delta) {
  const lanes decay = lanes_set(s->decay[token * s->gate_stride]);
  const lanes beta = lanes_set(s->beta[token * s->gate_stride]);
#pragma GCC unroll 4
  for (int j = 0; j < n; j++) {
    const lanes error = lanes_fma(r->by_k[j], lanes_mul(decay, lanes_set(-1)), lanes_load(c->v + token * s->stride + j * LANES));
    delta[j] = lanes_mul(error, beta);
    lanes_store(c->ret + token * s->ret_stride + j * LANES, lanes_fma(delta[j], lanes_set(qk), lanes_mul(r->by_q[j], decay)));
  }
}

/* Writes a token's delta into the state and, unless it is the last, reads the state for the next token on the way. */
LANES_INLINE void write_state(const gdn_span *s, const columns *c, const int n, uint32_t token, const lanes *delta, const int is_last,
                              reads *next) {
  const float *k = s->k + token * s->stride;
  const float *next_k = is_last ? k : k + s->stride;
  const float *next_q = s->q + (next_k - s->k);
  const lanes decay = lanes_set(s->decay[token * s->gate_stride]);
  for (uint32_t i = 0; i < s->key_dim; i++) {
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
      float *at = c->state + (size_t)i * c->width + j * LANES;
      const lanes row = lanes_fma(lanes_set(k[i]), delta[j], lanes_mul(lanes_load(at), decay));
      lanes_store(at, row);
      if (!is_last) {
        add_row(next, row, next_k[i], next_q[i], j);
      }
    }
  }
}

LANES_INLINE reads no_reads(const int n) {
  reads r;
#pragma GCC unroll 4
  for (int j = 0; j < n; j++) {
    r.by_k[j] = lanes_set(0);
    r.by_q[j] = lanes_set(0);
  }
  return r;
}

/* n vectors of columns. */
LANES_INLINE void recur_columns(const gdn_span *s, const columns *c, const int n) {
  lanes delta[VECTORS];
  reads r = no_reads(n);
  read_state(s, c, n, &r);
  for (uint32_t t = 0; t < s->count; t++) {
    put_out(s, c, n, t, lanes_dot(s->q + t * s->stride, s->k + t * s->stride, s->key_dim), &r, delta);
    r = no_reads(n);
    if (t + 1 < s->count) {
      write_state(s, c, n, t, delta, 0, &r);
    } else {
      write_state(s, c, n, t, delta, 1, &r);
    }
  }
}

/* The same for one column. */
static void recur_column(const gdn_span *s, const columns *c) {
  for (uint32_t t = 0; t < s->count; t++) {
    const float *q = s->q + t * s->stride;
    const float *k = s->k + t * s->stride;
    const float decay = s->decay[t * s->gate_stride];
    float by_k = 0;
    float by_q = 0;
    for (uint32_t i = 0; i < s->key_dim; i++) {
      by_k = fmaf(c->state[(size_t)i * c->width], k[i], by_k);
      by_q = fmaf(c->state[(size_t)i * c->width], q[i], by_q);
    }
    const float delta = fmaf(by_k, -decay, c->v[t * s->stride]) * s->beta[t * s->gate_stride];
    c->ret[t * s->ret_stride] = fmaf(delta, lanes_dot(q, k, s->key_dim), by_q * decay);
    for (uint32_t i = 0; i < s->key_dim; i++) {
      float *at = &c->state[(size_t)i * c->width];
      *at = fmaf(k[i], delta, *at * decay);
    }
  }
}

static void recur(const gdn_span *s) {
  for (uint32_t slice = 0; slice < s->value_dim; slice += GDN_SLICE) {
    const uint32_t width = s->value_dim - slice < GDN_SLICE ? s->value_dim - slice : GDN_SLICE;
    float *state = s->state + (size_t)slice * s->key_dim;
    uint32_t column = 0;
    for (; column + VECTORS * LANES <= width; column += VECTORS * LANES) {
      recur_columns(s, &(columns){state + column, width, s->v + slice + column, s->ret + slice + column}, VECTORS);
    }
    for (; column + LANES <= width; column += LANES) {
      recur_columns(s, &(columns){state + column, width, s->v + slice + column, s->ret + slice + column}, 1);
    }
    for (; column < width; column++) {
      recur_column(s, &(columns){state + column, width, s->v + slice + column, s->ret + slice + column});
    }
  }
}
