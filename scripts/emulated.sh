#!/bin/sh
# Runs the C tests on processors that this machine is not, under emulation. Instructions that such a processor lacks end the program there,
# so that a kernel's flags which leaked into other code show.
#   emulated.sh arm64: cross-compiled; a processor with dot products alone, and one with all that the kernels know.
#   emulated.sh haswell: the objects that ship, on a processor with AVX2 and nothing wider.
# On arm64 itself there is nothing to add to `make test`.
set -eu
cd "$(dirname "$0")/.."
target=${1:-}
case $target in arm64 | haswell) ;; *) echo "emulated.sh: say 'arm64' or 'haswell', not '$target'." >&2; exit 64 ;; esac
[ "$(uname -m)" = x86_64 ] || exit 0
mkdir -p build/emulated
tape=build/emulated/golden.tape
node_modules/.bin/bun test/support/golden_tape.ts "$tape" "q35-bf16 model" "q35-k256 q4_k-q6_k"

# fail CPU LOG WHAT
fail() {
  echo "emulated: on $1: $3" >&2
  tail -n 40 "$2" >&2
  exit 1
}

# build FOLDER CMAKE_ARGUMENTS...: the library's tests in build/FOLDER.
build() {
  folder=$1
  shift
  cmake -S csrc -B "build/$folder" -G Ninja "$@" >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
  ninja -C "build/$folder" --quiet >build/ninja.log 2>&1 || { cat build/ninja.log >&2; exit 1; }
}

# run_on FOLDER EMULATOR CPU KERNELS: every program of build/FOLDER on that processor, two at a time, and two golden models in both precisions.
# KERNELS: the fastest that it must have run, or the emulator is too old. Left out are programs that take long and say the same on every
# processor, those about system calls, which the emulator answers, and those that emulate a processor themselves.
run_on() {
  logs=build/emulated/$3
  rm -rf "$logs" && mkdir "$logs"
  {
    echo golden_peer "$tape"
    echo cpu.kernels_test
    find "build/$1/test" -maxdepth 1 -name '*_test' ! -name '*emulated_test' ! -name cpu.kernels_test ! -name 'sample.*' ! -name 'engine.*' ! -name 'os.*' -printf '%f\n'
  } | QEMU_CPU=$3 xargs -P 2 -L 1 sh -c 'timeout 300 $0 "$1/test/$3" "$4" >"$2/$3" 2>&1 || echo "$3" >>"$2/failed"' "$2" "build/$1" "$logs"
  for name in $(cat "$logs/failed" 2>/dev/null); do fail "$3" "$logs/$name" "$name failed"; done
  grep -q "kernels of $4 run here" "$logs/cpu.kernels_test" || fail "$3" "$logs/cpu.kernels_test" "the kernels of $4 did not run"
  grep -q "kernels of $4 are chosen" "$logs/cpu.dispatch_test" || fail "$3" "$logs/cpu.dispatch_test" "not the kernels of $4 were chosen"
}

if [ "$target" = arm64 ]; then
  emulator="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
  build arm64 -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc
  run_on arm64 "$emulator" neoverse-n1 neon_dotprod
  run_on arm64 "$emulator" max neon_i8mm
else
  build gcc -DCMAKE_C_COMPILER=gcc
  run_on gcc qemu-x86_64-static Haswell avx2
  grep -q 'SURGE_ISA is "avx512vnni", which is unknown or not possible on this processor' build/emulated/Haswell/cpu.dispatch_test ||
    fail Haswell build/emulated/Haswell/cpu.dispatch_test "SURGE_ISA=avx512vnni was not refused"
fi
