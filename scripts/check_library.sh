#!/bin/sh
# The C library as a whole: builds with clang, exports surge_* alone, keeps wide registers to its kernels, loads on old glibc, and the
# committed TypeScript layout is the compiler's.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "check_library: $*" >&2; exit 1; }

cmake -S csrc -B build/clang -G Ninja -DCMAKE_C_COMPILER=clang >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
ninja -C build/clang --quiet surge || fail "clang does not build the library without warnings"

# make build writes the file anew, so a stale one shows as a change against the commit; an unpacked archive has no commit to compare with.
! git rev-parse -q --verify HEAD >/dev/null 2>&1 || git diff --quiet HEAD -- ffi/layout.gen.ts ||
  fail "ffi/layout.gen.ts is not what the library says; commit the one that make build wrote"

others=$(nm -D --defined-only build/libsurge.so | awk '{print $3}' | grep -v '^surge_' || true)
[ -z "$others" ] || fail "exported besides surge_*: $others"

if [ "$(uname -m)" = x86_64 ]; then
  objects=$(find build/gcc -path '*surge_objects*' -name '*.o')
  [ -n "$objects" ] || fail "no objects to look at in build/gcc"
  for object in $objects; do
    case $object in */kernels/*/ref.c.o) ;; */kernels/*) continue ;; esac
    if objdump -d --no-show-raw-insn "$object" | grep -qE '%[yz]mm'; then fail "$object uses wide registers"; fi
  done
fi

newest=$(readelf -W --dyn-syms build/libsurge.so | grep -oE 'GLIBC_2\.[0-9]+' | sort -t. -k2 -n | tail -1)
[ "${newest#GLIBC_2.}" -le 28 ] || fail "needs $newest; the floor is GLIBC_2.28"
