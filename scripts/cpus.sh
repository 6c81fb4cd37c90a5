#!/usr/bin/env bash
# The tests that promise exact numbers, as other machines compute them: LibTorch's kernels without AVX-512 and without AVX2, MKL's
# reproducible paths, another number of threads. What is equal bit for bit on one machine only is a promise that a user finds broken.
#   scripts/cpus.sh                 two settings, one after the other; goes on after one that fails, exit 1 if any has
#   scripts/cpus.sh SETTING…        these, e.g. OMP_NUM_THREADS=1 'MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=2'
# CTEST names the runner and its flags. A test that pins its own threads or kernels (TrainCommand does) keeps them.
set -euo pipefail
cd "$(dirname "$0")/../build"

rooms='^(tensor|data|optim|pipeline|parallel|models|train|examples|process_train)$'
settings=("$@")
# Of several variables: ATen's kernels, MKL's and threads are chosen apart from each other.
[ $# -gt 0 ] || settings=('ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1' 'ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=2')
read -ra ctest <<<"${CTEST:-ctest --output-on-failure --no-tests=error -j $(nproc)}"

failed=()
for setting in "${settings[@]}"; do
  printf 'cpus: %s\n' "$setting"
  read -ra variables <<<"$setting"
  env "${variables[@]}" "${ctest[@]}" -L "$rooms" || failed+=("$setting")
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'cpus: failed under %s\n' "${failed[@]}" >&2
  printf 'hint: which of several variables it was: scripts/cpus.sh A=1 B=2\n' >&2
  exit 1
fi
printf 'cpus: all pass under %s\n' "${settings[@]}"
