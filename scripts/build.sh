#!/bin/sh
# Builds build/libsurge.so and dist/surge. Must run after setup.sh run; changes nothing outside build/, dist/ and ffi/layout.gen.ts.
set -eu
cd "$(dirname "$0")/.."
bun=node_modules/.bin/bun
mkdir -p build dist

cmake -S csrc -B build/gcc -G Ninja -DCMAKE_C_COMPILER=gcc >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
ninja -C build/gcc --quiet surge surge_layout >build/ninja.log 2>&1 || { cat build/ninja.log >&2; exit 1; }
cp -L build/gcc/libsurge.so build/libsurge.so
build/gcc/surge_layout >build/layout.gen.ts
cmp -s build/layout.gen.ts ffi/layout.gen.ts || cp build/layout.gen.ts ffi/layout.gen.ts

$bun scripts/licenses.ts >build/licenses.txt
$bun build --compile --minify --no-compile-autoload-dotenv --no-compile-autoload-bunfig src/main.ts --outfile dist/surge >build/bun.log 2>&1 ||
  { cat build/bun.log >&2; exit 1; }
