#!/usr/bin/env bash
# The Python peers: a virtual environment with PyTorch and the tuners in .venv of this checkout, then tests/parity (goldens
# made anew and compared, live runs beside Python) in two processes. Ends with pytest's own summary line. Needs a finished build
# (build/bin).
#   scripts/parity.sh [PYTEST ARGS]     everything, or what pytest's arguments select; -n 0 for one process
#   scripts/parity.sh --goldens=changed only goldens that may have changed (.ci/run; see tests/parity/test_goldens.py); all live runs
#   scripts/parity.sh --venv-only       only the virtual environment (benchmarks/peers use it)
#   MUSTER_BUILD_DIR=build-dev          test that build instead of build/
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=tests/parity/requirements.txt

say() { printf 'parity: %s\n' "$*" >&2; }
die() { printf 'parity: %s\n' "$1" >&2; [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2; exit 1; }

# A bare Debian has python3 without ensurepip, which `python3 -m venv` needs.
need_venv_module() {
  python3 -c 'import ensurepip, venv' 2>/dev/null && return
  command -v apt-get >/dev/null || die "python3 has no venv module" "install Python's venv and ensurepip"
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "root is needed to install python3-venv" "run as root, or install sudo"
    as_root=(sudo)
  fi
  say "installing python3-venv"
  local log; log=$(mktemp)
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=900 -o Acquire::Retries=3)
  if ! { flock 9; ${as_root[@]+"${as_root[@]}"} "${apt[@]}" update &&
         ${as_root[@]+"${as_root[@]}"} "${apt[@]}" install -y --no-install-recommends python3-venv; } \
       >"$log" 2>&1 9>"/tmp/muster-setup-apt.$(id -u).lock"; then
    cat "$log" >&2; rm -f "$log"; die "apt-get could not install python3-venv"
  fi
  rm -f "$log"
}

install_requirements() {
  local try
  for try in 1 2 3; do  # pip itself gives up where the network stops in the middle of a file
    .venv/bin/python -m pip install -q --no-compile --disable-pip-version-check --no-deps --timeout 30 --retries 2 -r "$requirements" >&2 && return
    [ "$try" = 3 ] || { say "pip failed; trying again"; sleep $((5 * try)); }
  done
  return 1
}

# The stamp holds the requirements that were installed to the end, so a cut-off installation is made again. A venv knows
# its own path: a copied checkout makes its own.
make_venv() {
  local stamp=.venv/.muster-requirements
  local wanted; wanted=$(pwd; python3 --version; cat "$requirements")
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
  need_venv_module
  say "making .venv with PyTorch and the tuners (about 5 GB, about two minutes)"
  rm -rf .venv
  python3 -m venv .venv
  install_requirements || die "pip could not install $requirements" "check the network and the free space, then run it again"
  .venv/bin/python -c 'import torch, torch.distributed' || die "PyTorch was installed and cannot be imported"
  printf '%s\n' "$wanted" >"$stamp"
}

mkdir -p .deps
exec 8>.deps/.venv.lock; flock 8
make_venv
exec 8>&-
[ "${1:-}" = --venv-only ] && exit

where=(tests/parity)
for word in "$@"; do
  if [ -e "${word%%::*}" ]; then where=(); fi
done
if [ ${#where[@]} = 1 ] && [ -e "${MUSTER_BUILD_DIR:-build}/build.ninja" ]; then
  # All at once; what a test still misses, its fixture builds.
  log=$(mktemp)
  cmake --build "${MUSTER_BUILD_DIR:-build}" --target parity_programs >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; exit 1; }
  rm -f "$log"
fi
# Where Python may not keep what it has compiled, each `import torch` costs twice as much (7 s, not 4, on our machines): pip has
# compiled nothing (--no-compile).
unset PYTHONDONTWRITEBYTECODE
# Threads of two tests that spin while they wait would take the cores from each other.
exec env OMP_WAIT_POLICY=passive .venv/bin/python -m pytest -q -p no:cacheprovider -n 2 --dist worksteal "$@" ${where[@]+"${where[@]}"}
