#!/usr/bin/env bash
# Brings a fresh Debian 12 to the point where Muster builds: Debian packages (only the missing ones), the LibTorch
# wheel unpacked into .deps/ of this checkout, and no more. Safe to run again, and from two checkouts at once.
#   scripts/setup.sh            what `make build` needs
#   scripts/setup.sh compat | tidy | package | clang   and also the oldest LibTorch, clang-tidy, what CPack calls, or clang's
#                                                      sanitizers, libFuzzer and linker
#   MUSTER_TORCH_DIR=/path      use that LibTorch instead of the wheel (a folder with include/ and lib/)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(cmake ninja-build ccache unzip g++ clang-14 python3-pip libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev zlib1g-dev libdeflate-dev
          libprotobuf-dev protobuf-compiler libpng-dev libjpeg62-turbo-dev libcairo2-dev libncurses-dev libtomlplusplus-dev libsqlite3-dev libyaml-cpp-dev libeigen3-dev libnlopt-dev libutf8proc-dev libpcre2-dev libgloo-dev dataset-fashion-mnist clang-format valgrind)
torch_version=2.15.0  # and
oldest_torch=2.11.0   # are pinned in fetch_libtorch.sh

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$1" >&2; [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2; exit 1; }

install_packages() {
  local missing=() p
  for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || die "these Debian packages are missing: ${missing[*]}" "install their equivalents by hand"
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "root is needed to install: ${missing[*]}" "run as root, or install sudo"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  # The lock timeout lets two checkouts set up at the same time.
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=900 -o Acquire::Retries=3)
  local log; log=$(mktemp)
  if ! { flock 9; "${as_root[@]}" "${apt[@]}" update && "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
       >"$log" 2>&1 9>"/tmp/muster-setup-apt.$(id -u).lock"; then
    cat "$log" >&2; rm -f "$log"; die "apt-get could not install: ${missing[*]}"
  fi
  rm -f "$log"
}

has_gpu() { [ -e /dev/nvidiactl ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }; }

unpack_torch() {  # unpack_torch VERSION VARIANT: into .deps/libtorch-VERSION-VARIANT
  local final=".deps/libtorch-$1-$2"
  [ -e "$final/.complete" ] && return
  say "fetching LibTorch $1 ($2) into $final"
  MUSTER_TORCH_VARIANT=$2 scripts/fetch_libtorch.sh "$final" "$1"
}

case ${1:-} in
  compat|'') ;;
  tidy) packages+=(clang-19 clang-tidy-19 libomp-19-dev) ;;  # clang for precompiled headers; a benchmark includes omp.h
  package) packages+=(dpkg-dev file fakeroot) ;;
  clang) packages+=(libclang-rt-14-dev llvm-14 lld-14) ;;  # llvm-14 names functions in the sanitizers' reports
  *) die "setup.sh $1: no such set" "compat, tidy, package, clang, or nothing" ;;
esac
install_packages
if [ -n "${MUSTER_TORCH_DIR:-}" ]; then
  [ -d "$MUSTER_TORCH_DIR/include/ATen" ] || die "MUSTER_TORCH_DIR has no include/ATen: $MUSTER_TORCH_DIR" "name LibTorch's own folder, the one with include/ and lib/"
fi
mkdir -p .deps
exec 8>.deps/.lock; flock 8
if [ "${1:-}" = compat ]; then
  unpack_torch "$oldest_torch" cpu
elif [ -z "${MUSTER_TORCH_DIR:-}" ]; then
  variant=cpu; has_gpu && variant=gpu
  unpack_torch "$torch_version" $variant
  ln -sfn "libtorch-$torch_version-$variant" .deps/libtorch
fi
