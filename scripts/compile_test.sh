#!/usr/bin/env bash
# A compiler call that CMake made for g++, done by clang (muster_test_compiler in cmake/Compile.cmake).
#   compile_test.sh CLANG LAUNCHER… -- /usr/bin/c++ FLAGS…
# A precompiled header holds the checkout's path, so it is made without the launcher, a compiler cache. Beside it lies the sum of
# what it holds, which ccache takes for the header (CCACHE_PCH_EXTSUM): then objects of another checkout serve here, too.
set -euo pipefail
clang=$1 launcher=()
shift
while [ "$1" != -- ]; do launcher+=("$1"); shift; done
shift 2
header=''
[[ " $* " == *' -x c++-header '* ]] && for i in $(seq $#); do
  [ "${!i}" != -o ] || { i=$((i + 1)); header=${!i}; }
done
if [ -z "$header" ]; then
  export CCACHE_PCH_EXTSUM=1
  exec "${launcher[@]}" "$clang" "$@"
fi
rm -f "$header" "$header.sum"  # clang would begin with an old one
"$clang" "$@" -Xclang -fno-pch-timestamp
text=()
while [ $# -gt 0 ]; do
  case $1 in
    -o | -MT | -MF) shift ;;
    -MD) ;;
    -c) text+=(-E -P) ;;
    *) text+=("$1") ;;
  esac
  shift
done
rm -f "$header.tmp"
mv "$header" "$header.tmp"  # else it would stand for the text
"$clang" "${text[@]}" | sha256sum | cut -d' ' -f1 >"$header.tmp.sum"
mv "$header.tmp.sum" "$header.sum"
mv "$header.tmp" "$header"
