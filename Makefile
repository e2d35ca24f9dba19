# The one front door. Targets say what they need and install it (scripts/setup.sh); nothing else prepares the machine.
.DEFAULT_GOAL := help
.PHONY: help setup build run test check fuzz fmt lint types layers arm64 clean
BUN := node_modules/.bin/bun
DENO := node_modules/.bin/deno

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 10

setup: ## install what building and checking need
	@scripts/setup.sh check

build: ## build dist/surge
	@scripts/setup.sh run
	@scripts/build.sh

run: build ## build, then chat with the demonstration model
	@if [ -t 0 ]; then dist/surge chat; else dist/surge run demo "What is the capital of France?" --seed 1 </dev/null; fi

test: build ## every test; ends with "N passed, N failed, N skipped"
	@scripts/test.sh

check: ## the gate: format, lint, types, layers, both compilers, arm64, then every test
	@scripts/setup.sh check
	@$(MAKE) --no-print-directory build fmtcheck lint types layers
	@scripts/check_library.sh
	@$(MAKE) --no-print-directory arm64
	@scripts/test.sh

fmt: ## format the TypeScript
	@$(DENO) fmt

.PHONY: fmtcheck
fmtcheck:
	@$(DENO) fmt --check --quiet

lint: ## lint the TypeScript
	@$(DENO) lint --quiet

types: ## check types
	@node_modules/.bin/tsc --noEmit

layers: ## imports go down only; sizes and names
	@$(BUN) scripts/check_layers.ts
	@$(BUN) scripts/tidy.ts

arm64: ## the C tests on arm64, emulated
	@scripts/arm64.sh

fuzz: build ## fuzz the file readers for FUZZ_SECONDS (default 60)
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BUN) test ./test/fuzz/readers_fuzz_test.ts --timeout 3600000

clean: ## remove what was built
	@rm -rf build dist
