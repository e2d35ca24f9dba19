#!/bin/sh
# Runs every test: C (sanitised), then TypeScript. The last line is "N passed, N failed, N skipped"; fails when any failed or none ran.
set -u
cd "$(dirname "$0")/.."
results=build/test-results
rm -rf "$results" && mkdir -p "$results"

cmake -S csrc -B build/sanitize -G Ninja -DSURGE_SANITIZE=ON >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
ninja -C build/sanitize --quiet || exit 1
ctest --test-dir build/sanitize --output-on-failure --timeout 300 >"$results/ctest.log" 2>&1
ctest_status=$?
grep -hE '^(FAIL|.*ERROR: AddressSanitizer|.*runtime error)' "$results/ctest.log"
find build/sanitize -name LastTest.log -exec cat {} + | grep -hE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' >"$results/c.txt"
[ "$ctest_status" = 0 ] || { tail -n 40 "$results/ctest.log"; }

node_modules/.bin/bun test --timeout 120000 --reporter=junit --reporter-outfile="$results/bun.xml" >"$results/bun.log" 2>&1
bun_status=$?
[ "$bun_status" = 0 ] || { grep -vE '^\((pass|skip)\)' "$results/bun.log" | tail -n 200; }

node_modules/.bin/bun scripts/test_summary.ts "$results" "$ctest_status" "$bun_status"
