# The commands of this checkout. Each sets up what it needs; nothing is installed by hand.
#   make demo      set up, build, train the CNN on Fashion-MNIST on two ranks
#   make test      set up, build, run all tests (no Python peer)
#   make parity    install the peers into .venv, make the goldens anew, compare live
#   make bench     benchmarks against the peers; the tables go to docs/benchmarks.md
#   make asan | tsan   the torch-free rooms (and thread ranks) under sanitizers
#   make fuzz      libFuzzer on every parser, FUZZ_SECONDS (60) each
#   make soak      long runs of the process tests
#   make tidy | format

.DEFAULT_GOAL := help
SHELL := /bin/bash
JOBS ?= $(shell nproc)
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: help setup build program demo test parity bench asan tsan fuzz soak tidy format

help:
	@sed -n '2,10s/^# //p' Makefile

setup:
	@scripts/setup.sh

build/build.ninja: | setup
	@cmake --preset release

# What the demo needs: the program, without tests and examples.
program: setup build/build.ninja
	@cmake --build build -j $(JOBS) --target muster

build: setup build/build.ninja
	@cmake --build build -j $(JOBS)

demo: program
	@scripts/demo.sh

test: build
	@cd build && $(CTEST)

parity: build
	@scripts/parity.sh

bench: build
	@scripts/bench.sh

# Torch-free rooms with both sanitizers; LibTorch itself is not instrumented.
asan:
	@scripts/setup.sh
	@cmake --preset asan -DMUSTER_WITH_TORCH=OFF
	@cmake --build build-asan -j $(JOBS)
	@cd build-asan && $(CTEST)

tsan:
	@scripts/setup.sh
	@cmake --preset tsan
	@cmake --build build-tsan -j $(JOBS)
	@cd build-tsan && $(CTEST)

# FUZZ_SECONDS=3600 for an hour per target; findings and the grown corpus stay in build-fuzz/.
FUZZ_SECONDS ?= 60
fuzz:
	@scripts/setup.sh fuzz
	@cmake --preset fuzz
	@cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

soak: build
	@cd build && MUSTER_SOAK=1 ctest --output-on-failure --no-tests=error -L process --timeout 7200

tidy: setup
	@cmake --preset tidy
	@cmake --build build-tidy -j $(JOBS)

format:
	@git ls-files '*.cpp' '*.h' | xargs clang-format -i
