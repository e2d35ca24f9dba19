/* none_test.c – a plan that names an NPU where there is none is refused in one sentence; a plan without one is not. */
#include "check.h"
#include "npu/npu.h"

TEST(asked_for_and_not_there) {
  surge_error err = {.struct_size = sizeof err};
  CHECK_EQ(npu_open(0, &err), SURGE_OK);
  CHECK_EQ(err.status, 0);
  CHECK_EQ(npu_open(2, &err), SURGE_E_DEVICE);
  CHECK_STR(err.message, "the plan asks for 2 NPU(s) and this machine has none");
}

int main(void) {
  RUN(asked_for_and_not_there);
  return check_done();
}
