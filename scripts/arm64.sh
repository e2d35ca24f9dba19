#!/bin/sh
# Cross-compiles the library for arm64 and runs the C tests under emulation. On arm64 itself there is nothing to add to `make test`.
set -eu
cd "$(dirname "$0")/.."
[ "$(uname -m)" = x86_64 ] || exit 0
mkdir -p build
cmake -S csrc -B build/arm64 -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64-static;-L;/usr/aarch64-linux-gnu" >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
ninja -C build/arm64 --quiet >build/ninja.log 2>&1 || { cat build/ninja.log >&2; exit 1; }
ctest --test-dir build/arm64 --output-on-failure --no-tests=error --timeout 300 >build/arm64.log 2>&1 || { tail -n 40 build/arm64.log >&2; exit 1; }
