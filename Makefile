# The commands of this checkout. Each sets up what it needs; nothing is installed by hand.
#   make demo      set up, build, train the CNN on Fashion-MNIST on two ranks
#   make test      set up, build, run all tests (no Python peer)
#   make parity    install the peers into .venv, make the goldens anew, compare live
#   make bench     benchmarks against the peers; the tables go to docs/benchmarks.md
#   make asan | tsan   the torch-free rooms (and thread ranks) under sanitizers
#   make fuzz      libFuzzer on every parser, FUZZ_SECONDS (60) each
#   make soak      long runs of the process tests
#   make compat    the tests between ranks with the oldest LibTorch that is supported (2.11)
#   make package   Debian packages in build/
#   make tidy | format

.DEFAULT_GOAL := help
SHELL := /bin/bash
JOBS ?= $(shell nproc)
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: help setup build program demo test parity bench asan tsan fuzz soak compat package tidy format

help:
	@sed -n '2,12s/^# //p' Makefile

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
	@cd build && MUSTER_SOAK=1 ctest --output-on-failure --no-tests=error -R ThreadAndShm --repeat until-fail:50

# 158 tests between ranks, DDP against Python's goldens among them, and `muster train` on one and two real ranks.
compat:
	@scripts/setup.sh
	@scripts/setup.sh compat
	@cmake --preset compat
	@cmake --build build-compat -j $(JOBS) --target parallel_tests train_cli_tests
	@cd build-compat && $(CTEST) -L '^parallel$$' && $(CTEST) -R 'TrainCommand.(EndsWith|TrainsOnTwoRanks)'

package:
	@scripts/setup.sh
	@scripts/setup.sh package
	@cmake --preset package
	@cmake --build build-package -j $(JOBS)
	@cd build-package && cpack

# Not part of `make test`: LibTorch makes a source cost 10 to 40 s here, and all headers of torch rooms, each by itself, 70 s.
tidy: build
	@scripts/setup.sh tidy
	@cmake --build build -j $(JOBS) --target verify_headers
	@cmake --preset tidy
	@ninja -C build-tidy $$(ninja -C build-tidy -t targets all | sed -n 's/^\(.*\.pb\.h\):.*/\1/p')
	@scripts/tidy.sh

format:
	@git ls-files '*.cpp' '*.h' | xargs clang-format -i
