#!/usr/bin/env bash
# Puts one pinned version of LibTorch, out of PyPI's wheel, into a folder: torch/{include,lib} and the parts of CUDA's
# runtime that it links to (docs/decisions/0007-parts-of-the-wheel.md). Needs pip and unzip; safe to interrupt.
#   fetch_libtorch.sh FOLDER           the version that Muster is built with
#   fetch_libtorch.sh FOLDER 2.11.0    the oldest that is supported (make compat)
#   MUSTER_TORCH_VARIANT=cpu|gpu       with or without the CUDA half; by default as this machine has an NVIDIA device
# Installed in PREFIX/lib/muster, it may be called without a folder: then it is libtorch beside it, where muster-torch and
# find_package(muster) look (docs/install.md).
set -euo pipefail

newest=2.15.0
die() { printf 'fetch_libtorch: %s\n' "$1" >&2; [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2; exit 1; }

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 0 ] && [ "$(basename "$here")" = muster ]; then set -- "$here/libtorch"; fi
[ $# -ge 1 ] || die "no folder was named" "fetch_libtorch.sh FOLDER [VERSION]"
final=$1
version=${2:-$newest}
arch=$(uname -m)
# What each wheel's own metadata asks for (cuda-toolkit 13.2 and 13.0.2), and its SHA-256 on x86_64.
case $version in
  2.15.0) runtime=13.2.86 cupti=13.2.86 sha256=48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e ;;
  2.11.0) runtime=13.0.96 cupti=13.0.85 sha256=7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a ;;
  *) die "LibTorch $version is not pinned here" "take 2.15.0 or 2.11.0, or add its hash to this script" ;;
esac

# A machine with an NVIDIA device also needs the CUDA half of the wheel and what that half links to.
has_gpu() { [ -e /dev/nvidiactl ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }; }
variant=cpu; has_gpu && variant=gpu
variant=${MUSTER_TORCH_VARIANT:-$variant}
[ -e "$final/.complete" ] && exit
for tool in python3 unzip; do command -v $tool >/dev/null || die "$tool is missing" "apt-get install python3-pip unzip"; done

fetch() {  # fetch FOLDER REQUIREMENT...: wheels only, for CPython 3.11 whatever python3 is here
  local to=$1; shift
  local n try platforms=() no_deps=(--no-deps); [ -z "${with_needs:-}" ] || no_deps=()
  for n in $(seq 35 -1 17); do platforms+=(--platform "manylinux_2_${n}_$arch"); done  # pip matches each number exactly
  for try in 1 2 3; do  # pip itself gives up where the network stops in the middle of a file
    python3 -m pip download -q --disable-pip-version-check --timeout 30 --retries 2 ${no_deps[@]+"${no_deps[@]}"} \
      --only-binary=:all: --python-version 3.11 --implementation cp "${platforms[@]}" --platform "manylinux2014_$arch" \
      --platform "manylinux1_$arch" -d "$to" "$@" >&2 && return
    [ "$try" = 3 ] || { echo "fetch_libtorch: pip failed; trying again" >&2; sleep $((5 * try)); }
  done
  return 1
}

parent=$(dirname "$final")
mkdir -p "$parent"
work=$(mktemp -d "$parent/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
fetch "$work/whl" "torch==$version" "nvidia-cuda-runtime==$runtime" "nvidia-cuda-cupti==$cupti"
if [ "$arch" = x86_64 ]; then
  echo "$sha256  $(ls "$work"/whl/torch-*.whl)" | sha256sum -c --quiet - >&2 ||
    die "the torch wheel that was downloaded is not the one this project pins" "check the package index that pip uses"
fi
if [ $variant = gpu ]; then
  # Exactly the versions that the torch wheel asks for; triton, sympy and the rest of its Python needs are left out.
  needs=$(unzip -p "$work"/whl/torch-*.whl '*.dist-info/METADATA' |
    sed -n 's/^Requires-Dist: \(\(nvidia-\|cuda-toolkit\)[^ ;]*\).*/\1/p')
  # shellcheck disable=SC2086
  with_needs=1 fetch "$work/whl" $needs
fi
skip=('torch/lib/libtorch_python.so' 'torch/lib/libshm*' 'torch/lib/libcaffe2_nvrtc.so')
[ $variant = gpu ] || skip+=('torch/lib/libtorch_cuda*' 'torch/lib/libc10_cuda*' 'torch/lib/libtorch_nvshmem*' 'torch/lib/libtorch.so'
                             'torch/lib/libtorch_global_deps.so')
unzip -q "$work"/whl/torch-*.whl 'torch/include/*' 'torch/lib/*' 'torch/version.py' 'torch-*/licenses/LICENSE' -x "${skip[@]}" -d "$work"
mkdir -p "$work/nvidia"
for wheel in "$work"/whl/nvidia*.whl; do unzip -qo "$wheel" 'nvidia/*' -d "$work"; done
rm -rf "$work/whl"
touch "$work/.complete"
chmod 755 "$work"
rm -rf "$final"
mv "$work" "$final"
