#!/usr/bin/env bash
# The tests that promise exact numbers, as other machines compute them: LibTorch's kernels without AVX-512 and without AVX2, MKL's
# reproducible paths, another number of threads. What is equal bit for bit on one machine only is a promise that a user finds broken.
#   scripts/cpus.sh                 all settings, one after the other; goes on after one that fails, exit 1 if any has
#   scripts/cpus.sh SETTING…        these, e.g. OMP_NUM_THREADS=1
# CTEST names the runner and its flags. A test that pins its own threads or kernels (TrainCommand does) keeps them.
set -euo pipefail
cd "$(dirname "$0")/../build"

rooms='^(tensor|data|optim|pipeline|parallel|models|train|examples|process_train)$'
settings=("$@")
[ $# -gt 0 ] || settings=(ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 OMP_NUM_THREADS=2)
read -ra ctest <<<"${CTEST:-ctest --output-on-failure --no-tests=error -j $(nproc)}"

failed=()
for setting in "${settings[@]}"; do
  printf 'cpus: %s\n' "$setting"
  env "$setting" "${ctest[@]}" -L "$rooms" || failed+=("$setting")
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'cpus: failed under %s\n' "${failed[*]}" >&2
  exit 1
fi
printf 'cpus: all pass under %s\n' "${settings[*]}"
