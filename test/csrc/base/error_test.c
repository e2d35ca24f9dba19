/* error_test.c – the message always ends, its length is what is there, and a struct of another size is left alone. */
#include "base/error.h"
#include "check.h"

TEST(fields_and_status) {
  surge_error err = {.struct_size = sizeof err};
  CHECK_EQ(error_set(&err, SURGE_E_DATA, "row %d", 7), SURGE_E_DATA);
  CHECK_EQ(err.status, SURGE_E_DATA);
  CHECK_EQ(err.file, -1);
  CHECK_EQ(err.tensor, -1);
  CHECK_EQ(err.message_bytes, 5);
  CHECK_STR(err.message, "row 7");
  CHECK_EQ(error_at(&err, SURGE_E_IO, 3, 4, "x"), SURGE_E_IO);
  CHECK_EQ(err.file, 3);
  CHECK_EQ(err.tensor, 4);
  CHECK_EQ(err.message_bytes, 1);
}

TEST(long_messages_are_cut) {
  struct {
    surge_error err;
    char guard[16];
  } framed = {.err = {.struct_size = sizeof framed.err}, .guard = "untouched"};
  char text[1000];
  memset(text, 'a', sizeof text);
  text[sizeof text - 1] = '\0';
  for (int length = (int)sizeof framed.err.message - 2; length <= (int)sizeof framed.err.message + 2; length++) {
    error_set(&framed.err, SURGE_E_DATA, "%.*s", length, text);
    CHECK_EQ(framed.err.message_bytes, strlen(framed.err.message));
    CHECK(framed.err.message_bytes < sizeof framed.err.message);
  }
  CHECK_STR(framed.guard, "untouched");
}

TEST(no_struct_or_a_foreign_one) {
  surge_error err = {.struct_size = 8, .status = 99};
  CHECK_EQ(error_set(NULL, SURGE_E_IO, "x"), SURGE_E_IO);
  CHECK_EQ(error_set(&err, SURGE_E_IO, "x"), SURGE_E_IO);
  CHECK_EQ(err.status, 99);
}

int main(void) {
  RUN(fields_and_status);
  RUN(long_messages_are_cut);
  RUN(no_struct_or_a_foreign_one);
  return check_done();
}
