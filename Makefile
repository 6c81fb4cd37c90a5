# The commands of this checkout. Each sets up what it needs; nothing is installed by hand.
#   make demo      set up, build (minutes, the first time), train the CNN on Fashion-MNIST on two ranks (about one)
#   make test      set up, build, run all tests (no Python peer)
#   make parity    install the peers into .venv, make the goldens anew, compare live
#   make bench     benchmarks against the peers; the tables go to docs/benchmarks.md
#   make asan      the torch-free rooms under AddressSanitizer and UndefinedBehaviorSanitizer (clang)
#   make tsan      what starts threads under ThreadSanitizer (clang): thread ranks, loader threads, studies, progress bars
#   make fuzz      libFuzzer on every parser, FUZZ_SECONDS (60) each; the same build as asan
#   make soak      long runs of the process tests: all blows of the kill loops
#   make flaky     all tests on a machine that stalls: slow disk, stolen cores, stopped tests; FLAKY='--rounds 3 -R Monitor'
#   make gpu       what needs a real device, where there is one: tests/gpu
#   make cpus      the tests of exact numbers with other kernels of LibTorch and MKL, and other numbers of threads
#   make compat    the tests between ranks with the oldest LibTorch that is supported (2.11)
#   make plain     each source by itself instead of an area at once, and each public header
#   make package   Debian packages in build/
#   make tidy | format
#   make nightly   all that finds faults and is long; NIGHTLY='compat tidy' for these stages (.ci/nightly --list)

.DEFAULT_GOAL := help
SHELL := /bin/bash
JOBS ?= $(shell nproc)
# Tests wait for processes and for silence a fourth of their time, most where the longest begin: twice as many keep the cores busy.
# Beside each other, threads of OpenMP that wait by spinning (the default) take the cores from those that compute: half of the
# processor time of the tests of models.
TEST_JOBS ?= $(shell echo $$(($(JOBS) * 2)))
CTEST = env OMP_WAIT_POLICY=passive ctest --output-on-failure --no-tests=error -j $(TEST_JOBS)

.PHONY: help setup configure build program demo test parity bench asan tsan fuzz soak flaky cpus gpu compat plain package tidy format nightly

help:
	@sed -n '2,/^$$/s/^# //p' Makefile

setup:
	@scripts/setup.sh

# MUSTER_TORCH_DIR, where it is said, holds for a build folder that is there already, too.
configure: setup
	@if [ -n "$(MUSTER_TORCH_DIR)" ]; then cmake --preset release -DMUSTER_TORCH_DIR="$(abspath $(MUSTER_TORCH_DIR))"; \
	elif [ ! -e build/build.ninja ]; then cmake --preset release; fi

# What the demo needs: the program, without tests and examples.
program: configure
	@cmake --build build -j $(JOBS) --target muster

build: configure
	@cmake --build build -j $(JOBS)

demo: program
	@scripts/demo.sh

test: build
	@cd build && $(CTEST)

# PARITY: more for pytest, --goldens=changed as in .ci/run, or the tests that are wanted.
parity: build
	@scripts/parity.sh $(PARITY)

bench: build
	@scripts/bench.sh

# ALL_SANITIZED_TESTS=ON: also what computes more than it allocates or starts threads; minutes to compile.
ALL_SANITIZED_TESTS ?= OFF

# Torch-free rooms with both sanitizers; LibTorch itself is not instrumented.
asan:
	@scripts/setup.sh
	@scripts/setup.sh clang
	@cmake --preset asan -DMUSTER_ALL_SANITIZED_TESTS=$(ALL_SANITIZED_TESTS)
	@cmake --build build-asan -j $(JOBS)
	@cd build-asan && $(CTEST)

tsan:
	@scripts/setup.sh
	@scripts/setup.sh clang
	@cmake --preset tsan -DMUSTER_ALL_SANITIZED_TESTS=$(ALL_SANITIZED_TESTS)
	@cmake --build build-tsan -j $(JOBS)
	@cd build-tsan && $(CTEST)

# FUZZ_SECONDS=3600 for an hour per target; findings and the grown corpus stay in build-asan/.
FUZZ_SECONDS ?= 60
fuzz:
	@scripts/setup.sh
	@scripts/setup.sh clang
	@cmake --preset asan
	@cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

# MUSTER_BLOWS=all: a dozen blows of each kill loop are in `make test`. MUSTER_SOAK: other seeds in each run.
soak: build
	@cd build && MUSTER_SOAK=1 MUSTER_BLOWS=all $(CTEST) -L process
	@cd build && MUSTER_SOAK=1 bin/distributed_tests --gtest_filter='*ThreadAndShm*' --gtest_repeat=50 --gtest_fail_fast --gtest_brief=1

flaky: build
	@JOBS=$(TEST_JOBS) scripts/flaky.sh $(FLAKY)

# One at a time: some take all of the device's memory.
gpu: build
	@[ -e /dev/nvidiactl ] || { echo "gpu: this machine has no NVIDIA device" >&2; exit 1; }
	@cd build && ctest --output-on-failure --no-tests=error -L '^gpu$$'

cpus: build
	@CTEST='$(CTEST)' scripts/cpus.sh $(CPUS)

# Tests between ranks, DDP against Python's goldens among them, and `muster train` on one and two real ranks.
compat:
	@scripts/setup.sh
	@scripts/setup.sh compat
	@cmake --preset compat
	@cmake --build build-compat -j $(JOBS) --target distributed_tests parallel_tests testing_tests process_train_tests
	@cd build-compat && $(CTEST) -L '^(distributed|parallel|testing)$$' && $(CTEST) -R 'TrainCommand.(EndsWith|TrainsOnTwoRanks)'

# A source that forgets an include compiles behind one that has it; here it stands alone.
plain:
	@scripts/setup.sh
	@scripts/setup.sh clang
	@cmake --preset plain
	@JOBS=$(JOBS) scripts/plain.py

package:
	@scripts/setup.sh
	@scripts/setup.sh package
	@cmake --preset package
	@cmake --build build-package -j $(JOBS)
	@cd build-package && cpack

# Not part of `make test`: LibTorch makes a source cost 10 to 40 s here.
tidy:
	@scripts/setup.sh
	@scripts/setup.sh tidy
	@for build in build-tidy build-tidy/names; do \
	  cmake --preset $$(echo $${build#build-} | tr / -) && \
	  ninja -C $$build $$(ninja -C $$build -t targets all | sed -n 's/^\(.*\.\(pb\.h\|pch\)\):.*/\1/p') || exit; \
	done
	@scripts/tidy.sh

format:
	@git ls-files '*.cpp' '*.h' | xargs clang-format -i

nightly:
	@.ci/nightly $(NIGHTLY)
