#!/usr/bin/env bash
# Runs every fuzz target of build-asan for SECONDS, JOBS at a time; `make fuzz` builds them first. One line per target:
# executions, coverage (edges), inputs in its corpus. Exit 1 if any found something; the input is kept.
#   scripts/fuzz.sh [SECONDS] [JOBS] [TARGET...]
# Seeds: tests/fuzz/corpus/TARGET. What a run adds: build-asan/corpus/TARGET, from which the next run goes on.
# FUZZ_TIMEOUT=60: seconds of wall time that one input may take (10); more where other programs starve the fuzzer.
# Findings: build-asan/findings/TARGET-*; run one again by build-asan/bin/fuzz_TARGET FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

# Inputs are at most 8 KiB. A single allocation above 64 MB is a finding: parsers take a small multiple of what they read
# (IDX up to the 1 MB that its target allows).
one() {  # one TARGET SECONDS
  local target=$1 log="build-asan/findings/$1.log" dictionary=()
  mkdir -p "build-asan/corpus/$target"
  [ ! -e "tests/fuzz/$target.dict" ] || dictionary=(-dict="tests/fuzz/$target.dict")
  local status=0
  UBSAN_OPTIONS=print_stacktrace=1 "build-asan/bin/fuzz_$target" -max_total_time="$2" -max_len=8192 -timeout="${FUZZ_TIMEOUT:-10}" \
    -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix="build-asan/findings/$target-" \
    ${dictionary[@]+"${dictionary[@]}"} "build-asan/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  local executions coverage inputs
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2) || true
  inputs=$(find "build-asan/corpus/$target" -type f | wc -l)
  printf 'fuzz: %-16s %10s executions in %s s, coverage %s, %s inputs: %s\n' "$target" "${executions:-no}" "$2" \
    "${coverage:-none}" "$inputs" "$([ $status = 0 ] && echo ok || echo "FINDING (exit $status), see $log")"
  [ $status = 0 ] && return
  grep -E 'ERROR|property does not hold|SUMMARY|Test unit written' "$log" >&2 || tail -5 "$log" >&2
  return 1
}

if [ "${1:-}" = --one ]; then one "$2" "$3"; exit; fi
seconds=${1:-60} jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do source=${source##*/}; targets+=("${source%_fuzz.cpp}"); done
fi
mkdir -p build-asan/findings
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} "$0" --one {} "$seconds"
