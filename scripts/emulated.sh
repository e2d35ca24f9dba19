#!/bin/sh
# Cross-compiles the library for arm64 and runs the C tests under emulation, on a processor with dot products alone and on one with all that
# the kernels know. On arm64 itself there is nothing to add to `make test`.
set -eu
cd "$(dirname "$0")/.."
[ "$(uname -m)" = x86_64 ] || exit 0
mkdir -p build
cmake -S csrc -B build/arm64 -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64-static;-L;/usr/aarch64-linux-gnu" >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
ninja -C build/arm64 --quiet >build/ninja.log 2>&1 || { cat build/ninja.log >&2; exit 1; }

# $1: qemu's name of the processor; $2: the fastest kernels it must have run, or the emulator is too old for this test.
run_on() {
  QEMU_CPU=$1 ctest --test-dir build/arm64 --output-on-failure --no-tests=error --timeout 300 >build/arm64.log 2>&1 ||
    { echo "arm64: on $1" >&2; tail -n 40 build/arm64.log >&2; exit 1; }
  grep -q "kernels of $2 run here" build/arm64/Testing/Temporary/LastTest.log || { echo "arm64: $1 does not run the kernels of $2" >&2; exit 1; }
}
run_on neoverse-n1 neon_dotprod
run_on max neon_i8mm
