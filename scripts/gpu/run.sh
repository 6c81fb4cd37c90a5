#!/usr/bin/env bash
# On the other machine: all tests of tests/gpu, in some three quarters of a minute, then the training beside Python's. Logs go to
# $OUT, a summary to stdout. Those that take all of the device's memory come last, one at a time.
#   run.sh [tests] [speed] [demo]
. "$(dirname "$0")/place.sh"
OUT=${OUT:-.}
gpu_tests() {  # gpu_tests LOG FILTER [SECONDS]
  timeout "${3:-120}" "$root/$build/bin/gpu_tests" --gtest_filter="$2" >"$OUT/$1.log" 2>&1
}
tests() {
  alone='*DoesNotFit*:*TheBatchThatFits*:*WhoHolds*'
  "$root/$build/bin/gpu_tests" --gtest_list_tests >"$OUT/list.txt" || { ldd "$root/$build/bin/gpu_tests" | grep 'not found'; exit 1; }
  gpu_tests units 'BatchesOnGpu.*:GroupsOnGpu.*:StrategiesOnGpu.*:OptimizersOnGpu.*:TuneOnGpu.*' &
  for i in 0 1 2 3 4 5; do
    GTEST_TOTAL_SHARDS=6 GTEST_SHARD_INDEX=$i gpu_tests "train$i" "TrainOnGpu.*-$alone" &
  done
  wait
  gpu_tests memory 'MemoryOnGpu.*'
  gpu_tests full "$alone"
  gpu_tests commands 'CommandsOnGpu.*:*DoctorOnGpu*'
  cat "$OUT"/train[0-5].log >"$OUT/train.log" && rm -f "$OUT"/train[0-5].log
  grep -h '^\[  \(FAILED\|PASSED\|SKIPPED\)' "$OUT"/{units,train,memory,full,commands}.log
}
speed() { python3 benchmarks/peers/train/gpu.py --build "$build" --pairs "${PAIRS:-1}" --models "${MODELS:-mlp,cnn,resnet18,lstm,transformer}" 2>&1 | tee "$OUT/speed.log"; }
demo() {
  muster train --model cnn --epochs 3 --device cuda --output /tmp/demo 2>&1 | tail -8
  muster train --model cnn --epochs 40 --device cuda --output /tmp/demo2 >/tmp/demo2.log 2>&1 &
  sleep 6; muster gpu; kill %1; wait
}
nvidia-smi -L
for stage in "${@:-tests}"; do
  echo "== $stage, $(date +%T)"
  "$stage"
done
date +%T
