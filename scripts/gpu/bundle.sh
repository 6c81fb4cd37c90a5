#!/usr/bin/env bash
# For a machine with a GPU on which nothing can be built: programs and tests of a build with that machine's version of LibTorch,
# in one archive, with the shared libraries that it may lack. There scripts/gpu/place.sh unpacks it at the same path, with the
# LibTorch of its python3 in the place of ours.
#   cmake --preset compat -B build-gpu && cmake --build build-gpu --target muster muster_nccl gpu_tests
#   scripts/gpu/bundle.sh build-gpu FOLDER          writes FOLDER/bundle.tar.xz, place.sh and run.sh
#   there: bash FOLDER/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$build" "$work/libraries" "$work/benchmarks/peers" "$folder"
cp -r "$build/bin" "$build/lib" "$work/$build/"
rm -f "$work/$build"/lib/*.a
strip "$work/$build"/bin/* 2>/dev/null || true
cc -O2 -shared -fPIC -o "$work/$build/lib/cuda_calls.so" scripts/gpu/cuda_calls.c -ldl
cp -r benchmarks/peers/train benchmarks/peers/report.py "$work/benchmarks/peers/"
ldd "$build"/bin/muster "$build"/bin/muster-torch "$build"/bin/gpu_tests | awk '$3 ~ "^/lib/" { print $3 }' | sort -u |
  grep -Ev '/lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|z)\.so' | xargs -I{} cp -L {} "$work/libraries/"
tar -C "$work" -cf - . | xz -T0 -3 >"$folder/bundle.tar.xz"
printf 'root=%q build=%q libtorch=%q\n' "$PWD" "$build" "$(sed -n 's/^MUSTER_TORCH_DIR:PATH=//p' "$build/CMakeCache.txt")" >"$folder/origin"
cp scripts/gpu/place.sh scripts/gpu/run.sh "$folder/"
