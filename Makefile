# The front door: every target installs what it needs, then calls CMake or a script of scripts/.
.DEFAULT_GOAL := help
PREFIX ?= /usr/local
JOBS := $(shell nproc 2>/dev/null || echo 2)
FRAMEWORK_PYTHON := .venv/bin/python
TOOL := build/release/bin/headwise
FUZZ_SECONDS ?= 20
CPP_FILES = find include src cli python tests examples bench -name '*.h' -o -name '*.cc'

.PHONY: help demo test accuracy bench lint format sanitize fuzz golden reference install clean release

help:  ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

demo: release  ## Build, take a tour of what Headwise computes, plan a layer and see real heads
	build/release/examples/headwise_tour
	scripts/demo.sh $(TOOL) build/demo

test:  ## Build and run all tests, C++ and Python; those of CPU targets also for ARM under an emulator
	scripts/install.sh build tool python test arm frameworks
	scripts/run_tests.py dev arm64

accuracy:  ## Print the error of all results against float64, beside that of a naive float32 run
	scripts/install.sh build tool test
	cmake --preset dev
	cmake --build --preset dev --parallel $(JOBS) --target headwise_accuracy_test
	HEADWISE_ACCURACY_TABLE=1 build/dev/tests/headwise_accuracy_test --gtest_brief=1

bench:  ## Measure all against this machine's peak (BENCH=--quick: a look); build/bench/bench.svg
	scripts/install.sh build tool bench
	cmake --preset bench
	cmake --build --preset bench --parallel $(JOBS)
	build/bench/bench/headwise_bench --json build/bench/bench.json --svg build/bench/bench.svg $(BENCH)

sanitize:  ## Run the tests under AddressSanitizer + UBSan, the threaded ones under ThreadSanitizer
	scripts/install.sh build tool test
	scripts/run_tests.py asan tsan

fuzz:  ## Feed damaged files to every reader (FUZZ_SECONDS=20 each)
	scripts/install.sh build fuzz
	scripts/run_fuzzers.py $(FUZZ_SECONDS)

lint:  ## Check format, clang-tidy, include directions and Python syntax
	scripts/install.sh build tool lint
	$(CPP_FILES) | xargs clang-format --dry-run -Werror
	cmake --preset release >/dev/null
	# Stubs, *_missing.cc, use little of what they stand in for.
	find src cli examples -name '*.cc' ! -name '*_test.cc' ! -name '*_missing.cc' | sort \
	  | xargs -P $(JOBS) -n 1 .venv/bin/clang-tidy -p build/release --quiet --warnings-as-errors='*'
	scripts/check_includes.py
	find scripts tests python examples -name '*.py' | xargs python3 -m py_compile

format:  ## Format all C++ files in place
	scripts/install.sh lint
	$(CPP_FILES) | xargs clang-format -i

golden:  ## Recompute the golden files with the real frameworks
	scripts/install.sh frameworks
	$(FRAMEWORK_PYTHON) tests/golden/make_golden.py

reference: release  ## Write docs/cli.md from what --help prints
	$(TOOL) reference > docs/cli.md

install: release  ## Install the program, headers, library and CMake package below PREFIX (/usr/local)
	cmake --install build/release --prefix "$(PREFIX)"

clean:  ## Remove everything built; .venv stays
	rm -rf build

release:
	scripts/install.sh build tool
	cmake --preset release
	cmake --build --preset release --parallel $(JOBS)
