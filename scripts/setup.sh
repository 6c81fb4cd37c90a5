#!/usr/bin/env bash
# Brings a fresh Debian 12 to the point where Muster builds: Debian packages (only the missing ones), the LibTorch
# wheel unpacked into .deps/ of this checkout, and no more. Safe to run again, and from two checkouts at once.
#   scripts/setup.sh            what `make build` needs
#   scripts/setup.sh --fuzz     and clang with libFuzzer, which `make fuzz` needs
#   MUSTER_TORCH_DIR=/path      use that LibTorch instead of the wheel (a folder with include/ and lib/)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(cmake ninja-build ccache unzip g++ python3-pip libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev zlib1g-dev libdeflate-dev
          libgloo-dev libtomlplusplus-dev dataset-fashion-mnist clang-format)
if [ "${1:-}" = --fuzz ]; then packages+=(clang-14 libclang-rt-14-dev); fi  # 260 MB
torch_version=2.15.0
cuda_pip_version=13.2.86
torch_sha256_x86_64=48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e

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

# A machine with an NVIDIA device also needs the CUDA half of the wheel and what that half links to.
has_gpu() { [ -e /dev/nvidiactl ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }; }

fetch() {  # fetch FOLDER REQUIREMENT...: wheels only, for CPython 3.11 whatever python3 is here
  local to=$1; shift
  local arch; arch=$(uname -m)
  local n platforms=() no_deps=(--no-deps); [ -z "${with_needs:-}" ] || no_deps=()
  for n in $(seq 35 -1 17); do platforms+=(--platform "manylinux_2_${n}_$arch"); done  # pip matches each number exactly
  python3 -m pip download -q --disable-pip-version-check ${no_deps[@]+"${no_deps[@]}"} --only-binary=:all: --python-version 3.11 --implementation cp \
    "${platforms[@]}" --platform "manylinux2014_$arch" --platform "manylinux1_$arch" -d "$to" "$@" >&2
}

unpack_torch() {
  local variant=cpu; has_gpu && variant=gpu
  local final=".deps/libtorch-$torch_version-$variant"
  if [ ! -e "$final/.complete" ]; then
    say "fetching LibTorch $torch_version ($variant) into $final"
    local work; work=$(mktemp -d .deps/unpack.XXXXXX)
    trap 'rm -rf "$work"' RETURN
    fetch "$work/whl" "torch==$torch_version" "nvidia-cuda-runtime==$cuda_pip_version" "nvidia-cuda-cupti==$cuda_pip_version"
    if [ "$(uname -m)" = x86_64 ]; then
      echo "$torch_sha256_x86_64  $(ls "$work"/whl/torch-*.whl)" | sha256sum -c --quiet - >&2 ||
        die "the torch wheel that was downloaded is not the one this project pins" "check the package index that pip uses"
    fi
    if [ $variant = gpu ]; then
      # Exactly the versions that the torch wheel asks for; triton, sympy and the rest of its Python needs are left out.
      local needs; needs=$(unzip -p "$work"/whl/torch-*.whl '*.dist-info/METADATA' |
        sed -n 's/^Requires-Dist: \(\(nvidia-\|cuda-toolkit\)[^ ;]*\).*/\1/p')
      # shellcheck disable=SC2086
      with_needs=1 fetch "$work/whl" $needs
    fi
    local skip=('torch/lib/libtorch_python.so' 'torch/lib/libshm*' 'torch/lib/libcaffe2_nvrtc.so')
    [ $variant = gpu ] || skip+=('torch/lib/libtorch_cuda*' 'torch/lib/libc10_cuda*' 'torch/lib/libtorch_nvshmem*' 'torch/lib/libtorch.so'
                                 'torch/lib/libtorch_global_deps.so')
    unzip -q "$work"/whl/torch-*.whl 'torch/include/*' 'torch/lib/*' 'torch/version.py' 'torch-*/licenses/LICENSE' -x "${skip[@]}" -d "$work"
    mkdir -p "$work/nvidia"
    local w
    for w in "$work"/whl/nvidia*.whl; do unzip -qo "$w" 'nvidia/*' -d "$work"; done
    rm -rf "$work/whl"
    touch "$work/.complete"
    chmod 755 "$work"
    rm -rf "$final"
    mv "$work" "$final"
  fi
  ln -sfn "$(basename "$final")" .deps/libtorch
}

install_packages
if [ -n "${MUSTER_TORCH_DIR:-}" ]; then
  [ -d "$MUSTER_TORCH_DIR/include/ATen" ] || die "MUSTER_TORCH_DIR has no include/ATen: $MUSTER_TORCH_DIR" "name LibTorch's own folder, the one with include/ and lib/"
else
  mkdir -p .deps
  exec 8>.deps/.lock; flock 8
  unpack_torch
fi
