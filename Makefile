# The one front door. Targets say what they need and install it (scripts/setup.sh); nothing else prepares the machine.
.DEFAULT_GOAL := help
.PHONY: help setup tools build run test check bench fuzz fmt fmtcheck lint types layers arm64 haswell clean
BUN := node_modules/.bin/bun
DENO := node_modules/.bin/deno

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 10

setup: ## install what building and checking need
	@scripts/setup.sh check

tools:
	@scripts/setup.sh run

build: tools ## build dist/surge
	@scripts/build.sh

run: build ## build, then chat with the demonstration model
	@if [ -t 0 ]; then dist/surge chat; else dist/surge run demo "What is the capital of France?" --seed 1 </dev/null; fi

test: build ## every test; ends with "N passed, N failed, N skipped"
	@scripts/test.sh

check: setup ## the gate: format, lint, types, layers, both compilers, other processors, then every test
	@$(MAKE) --no-print-directory build fmtcheck lint types layers
	@scripts/check_library.sh
	@$(MAKE) --no-print-directory arm64 haswell
	@scripts/test.sh

bench: setup build ## the README's speed table: this machine, a synthetic model of full shape, other engines (an hour, 7 GB of disk)
	@scripts/bench.sh

fmt: tools ## format the TypeScript
	@$(DENO) fmt

fmtcheck: tools
	@NO_COLOR=1 $(DENO) fmt --check || { echo "Not formatted; make fmt does it." >&2; exit 1; }

lint: tools ## lint the TypeScript
	@$(DENO) lint --quiet

types: tools ## check types
	@node_modules/.bin/tsc --noEmit

layers: tools ## imports go down only; sizes and names
	@$(BUN) scripts/check_layers.ts
	@$(BUN) scripts/tidy.ts

arm64: setup ## the C tests on arm64, emulated
	@scripts/emulated.sh arm64

haswell: setup ## the C tests on an x86-64 processor without AVX-512, emulated
	@scripts/emulated.sh haswell

fuzz: build ## fuzz the file readers for FUZZ_SECONDS (default 60)
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BUN) test ./test/fuzz/readers_fuzz_test.ts --timeout 3600000

clean: ## remove what was built
	@rm -rf build dist
