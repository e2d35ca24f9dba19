#!/bin/sh
# Runs every test: C under the sanitizers and as it ships, then TypeScript. The last line is "N passed, N failed, N skipped" over all of them;
# fails when any failed or a runner ran none. A C program that dies before its totals counts as one failed.
set -u
cd "$(dirname "$0")/.."
results=build/test-results
rm -rf "$results" && mkdir -p "$results"

# run_c NAME CMAKE_ARGUMENT: builds the C tests in build/NAME, runs them, appends their totals to c.txt.
run_c() {
  cmake -S csrc -B "build/$1" -G Ninja "$2" >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
  ninja -C "build/$1" --quiet >build/ninja.log 2>&1 || { cat build/ninja.log; exit 1; }
  # Counted first: listing overwrites the log of the last run.
  programs=$(ctest --test-dir "build/$1" -N | sed -n 's/^Total Tests: //p')
  log=$results/ctest-$1.log
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error --output-junit "$PWD/$results/$1.xml" --timeout 300 >"$log" 2>&1 || {
    grep -hE '^(FAIL|.*ERROR: AddressSanitizer|.*runtime error)' "$log"
    tail -n 40 "$log"
    c_status=1
  }
  totals=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "build/$1/Testing/Temporary/LastTest.log")
  dead=$((programs - $(printf '%s\n' "$totals" | grep -c passed)))
  printf '%s\n0 passed, %d failed, 0 skipped\n' "$totals" "$dead" >>"$results/c.txt"
}

c_status=0
run_c sanitize -DSURGE_SANITIZE=ON
run_c gcc -DCMAKE_C_COMPILER=gcc

node_modules/.bin/bun test --timeout 120000 --reporter=junit --reporter-outfile="$results/bun.xml" >"$results/bun.log" 2>&1
bun_status=$?
[ "$bun_status" = 0 ] || { grep -vE '^\((pass|skip)\)' "$results/bun.log" | tail -n 200; }

node_modules/.bin/bun scripts/test_summary.ts "$results" "$c_status" "$bun_status"
