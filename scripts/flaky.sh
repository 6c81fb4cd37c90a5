#!/usr/bin/env bash
# Runs the tests on a machine that is made slow: each fsync takes 15 ms more, now and then all cores are taken away for 0.2 to
# 2.5 s, and tests are stopped and continued at random. A test that falls here depends on the clock; or on another test of its
# process, since they come in random order. `make flaky` builds first.
#   scripts/flaky.sh [--rounds N] [--seed S] [CTEST ARGS]    scripts/flaky.sh --rounds 3 -R 'Monitor|parallel'
# Prints ctest's output, then what fell in each round, with its seed. Exit 1 if anything did. What was done to the tests, and when,
# is in build/flaky/round-N.disturbed; their output in round-N.log. A seed repeats the disturbances and the order of
# the tests, not where in a test a disturbance falls.
# FIFO scheduling, for which root or CAP_SYS_NICE is needed, takes the cores away altogether; else busy loops only crowd them.
#   MUSTER_BUILD_DIR=build-dev  test that build     MUSTER_FLAKY_SYNC_MS=50  slower disks     JOBS=4  tests at a time
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=1 seed=$((RANDOM * 32768 + RANDOM))
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    *) break ;;
  esac
done
build=${MUSTER_BUILD_DIR:-build}
[ -f "$build/CTestTestfile.cmake" ] || { echo "flaky: $build is no build folder with tests" >&2; echo "hint: make build" >&2; exit 2; }
out=$(realpath "$build")/flaky
mkdir -p "$out"
cc -O1 -Wall -shared -fPIC -o "$out/slow_sync.so" scripts/flaky/slow_sync.c

token=$$-$seed
disturber='' runner=''
under_token() {  # the processes of this run, a line each
  grep -lzsx "MUSTER_FLAKY=$token" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 || true
}
clean_up() {
  trap '' INT TERM HUP
  if [ -n "$disturber" ]; then exec 7>&-; kill -TERM "$disturber" 2>/dev/null || true; wait "$disturber" 2>/dev/null || true; fi
  [ -z "$runner" ] || kill -TERM "$runner" 2>/dev/null || true
  # Tests that were under way, the stopped ones among them. None is left after a good end.
  local left; left=$(under_token)
  [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fallen=()
for ((round = 1; round <= rounds; ++round)); do
  log=$out/round-$round.log disturbed=$out/round-$round.disturbed
  : >"$disturbed"
  echo "flaky: round $round of $rounds, --seed $seed"
  rm -f "$out/pipe"
  mkfifo "$out/pipe"
  python3 scripts/flaky/disturb.py "$token" "$seed" "$disturbed" <"$out/pipe" &
  disturber=$!
  exec 7>"$out/pipe"  # ends with this shell, however it ends; so nobody else may hold it
  status=0
  MUSTER_FLAKY=$token OMP_WAIT_POLICY=passive LD_PRELOAD=$out/slow_sync.so \
    GTEST_SHUFFLE=1 GTEST_RANDOM_SEED=$((seed % 99999 + 1)) \
    ctest --test-dir "$build" --output-on-failure --no-tests=error --output-log "$log" -j "${JOBS:-$(nproc)}" "$@" \
    </dev/null 2>&1 7>&- &
  runner=$!
  wait -n -p ended "$runner" "$disturber" || status=$?
  if [ "$ended" = "$disturber" ]; then
    disturber=''
    echo "flaky: scripts/flaky/disturb.py ended before the tests did; round $round says nothing" >&2
    exit 2
  fi
  runner=''
  echo done >&7
  exec 7>&-
  wait "$disturber" || true
  disturber=''
  if [ $status != 0 ]; then
    fallen+=("round $round, --seed $seed:")
    while read -r line; do fallen+=("  $line"); done \
      < <(sed -n '/The following tests FAILED/,$p' "$log" | grep -E '^\s+[0-9]+ - ' || echo "ctest ended with $status, see $log")
    # A shard holds many TESTs: those that fell, by GoogleTest's name.
    while read -r line; do fallen+=("    $line"); done < <(sed -n 's/^\[  FAILED  \] \([^ ,]*\)\( (.*\|,.*\|\)$/\1/p' "$log" | grep '\.' | sort -u)
  fi
  seed=$((seed + 1))
done
if [ ${#fallen[@]} -gt 0 ]; then
  echo "flaky: these fell"
  printf '%s\n' "${fallen[@]}"
  exit 1
fi
echo "flaky: nothing fell in $rounds round$([ "$rounds" = 1 ] || echo s)"
