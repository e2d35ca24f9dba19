/*
 * half_test.c – float16 and bfloat16 against their definition: all 65536 codes, and the float32 values on, beside and halfway between them.
 * Breaks when: a subnormal, the step to infinity, a tie, a sign or a NaN is converted wrongly; the F16 KV cache and every block scale stand on these.
 */
#include <stdlib.h>

#include "check.h"
#include "quant/half.h"

typedef struct half_kind {
  const char *name;
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
} half_kind;

static const half_kind KINDS[] = {
    {"f16", 5, 10, quant_f16_to_f32, quant_f32_to_f16},
    {"bf16", 8, 7, quant_bf16_to_f32, quant_f32_to_bf16},
};

static uint32_t infinity_code(const half_kind *k) { return ((1u << k->exponent_bits) - 1) << k->mantissa_bits; }

/* IEEE 754: the value of a code that is not NaN, in double, where it is exact. A code of infinity gives the power of two after the largest value. */
static double defined_value(const half_kind *k, uint32_t code) {
  const int bias = (1 << (k->exponent_bits - 1)) - 1;
  const uint32_t magnitude = code & 0x7fffu;
  const int exponent = (int)(magnitude >> k->mantissa_bits);
  const double fraction = (double)(magnitude & ((1u << k->mantissa_bits) - 1));
  const double leading = exponent == 0 ? 0.0 : ldexp(1.0, k->mantissa_bits);
  const double value = ldexp(leading + fraction, (exponent == 0 ? 1 : exponent) - bias - k->mantissa_bits);
  return code & 0x8000u ? -value : value;
}

static void check_narrow(const half_kind *k, float value, uint32_t expected) {
  const uint32_t code = k->narrow(value);
  if (code != expected && check_failed_at(__FILE__, __LINE__)) {
    printf("%s of %a is 0x%04x, not 0x%04x\n", k->name, (double)value, code, expected);
  }
}

TEST(codes_widen_to_their_value) {
  for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
    const half_kind *k = &KINDS[i];
    for (uint32_t code = 0; code < 65536; code++) {
      const float value = k->widen((uint16_t)code);
      const uint32_t magnitude = code & 0x7fffu;
      if (magnitude > infinity_code(k)) {
        CHECK(isnan(value));
      } else if (magnitude == infinity_code(k)) {
        CHECK(value == (code & 0x8000u ? -INFINITY : INFINITY));
      } else {
        CHECK((double)value == defined_value(k, code));
      }
      CHECK(isnan(value) || !signbit(value) == !(code & 0x8000u));
    }
  }
}

TEST(narrowing_undoes_widening) {
  for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
    const half_kind *k = &KINDS[i];
    for (uint32_t code = 0; code < 65536; code++) {
      if ((code & 0x7fffu) <= infinity_code(k)) {
        check_narrow(k, k->widen((uint16_t)code), code);
      }
    }
  }
}

/* The last step is the one to infinity, which starts halfway to the power of two that would follow. */
TEST(narrowing_rounds_to_nearest_even) {
  for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
    const half_kind *k = &KINDS[i];
    for (uint32_t code = 0; code < infinity_code(k); code++) {
      const float middle = (float)((defined_value(k, code) + defined_value(k, code + 1)) / 2);
      const uint32_t even = code + code % 2;
      check_narrow(k, middle, even);
      check_narrow(k, nextafterf(middle, 0.0f), code);
      check_narrow(k, nextafterf(middle, INFINITY), code + 1);
      check_narrow(k, -middle, even | 0x8000u);
      check_narrow(k, nextafterf(-middle, 0.0f), code | 0x8000u);
      check_narrow(k, nextafterf(-middle, -INFINITY), (code + 1) | 0x8000u);
    }
  }
}

TEST(extremes) {
  for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
    const half_kind *k = &KINDS[i];
    check_narrow(k, 3.4028234664e38f, infinity_code(k));
    check_narrow(k, -3.4028234664e38f, infinity_code(k) | 0x8000u);
    check_narrow(k, 0x1p-149f, 0);
    check_narrow(k, -0x1p-149f, 0x8000u);
    for (uint32_t payload = 1; payload < 1u << 23; payload <<= 1) { /* payloads that the narrow type cannot hold must not become infinity */
      CHECK(isnan(k->widen(k->narrow(quant_bits_to_f32(0x7f800000u | payload)))));
      CHECK(isnan(k->widen(k->narrow(quant_bits_to_f32(0xff800000u | payload)))));
    }
    CHECK(isnan(k->widen(k->narrow(quant_bits_to_f32(0x7fffffffu)))));
    CHECK(isnan(k->widen(k->narrow(quant_bits_to_f32(0xffffffffu)))));
  }
}

int main(void) {
  RUN(codes_widen_to_their_value);
  RUN(narrowing_undoes_widening);
  RUN(narrowing_rounds_to_nearest_even);
  RUN(extremes);
  return check_done();
}
