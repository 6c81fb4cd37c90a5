#!/usr/bin/env bash
# A compiler call that CMake made (muster_test_compiler and muster_pch_compiler in cmake/Compile.cmake).
#   compile.sh [--by CLANG] LAUNCHER… -- /usr/bin/c++ FLAGS…      --by: with clang, though CMake meant g++
#
# A precompiled header gets a sum of the headers in it beside it, which a compiler cache, the launcher, takes for the header
# (CCACHE_PCH_EXTSUM): g++'s for LibTorch is half a gigabyte, to be read for each source that uses it. Clang's holds the checkout's
# path, so it comes from the cache only at the same path, but what is compiled with it serves in every checkout.
set -euo pipefail
clang=''
[ "$1" != --by ] || { clang=$2; shift 2; }
launcher=()
while [ "$1" != -- ]; do launcher+=("$1"); shift; done
shift
if [ -n "$clang" ]; then
  words=("$clang")
  for word in "${@:2}"; do
    case $word in --param=*) ;; *) words+=("$word") ;; esac  # g++'s
  done
  set -- "${words[@]}"
fi
[[ " $* " == *' -x c++-header '* ]] || exec ${launcher[@]+"${launcher[@]}"} "$@"

header='' rule=''
for i in $(seq $#); do
  next=$((i + 1))
  case ${!i} in -o) header=${!next} ;; -MF) rule=${!next} ;; esac
done
rm -f "$header" "$header.sum"  # clang would begin with an old one
if [[ "$1" == *clang* ]]; then
  set -- "$@" -Xclang -fno-pch-timestamp
  [ ${#launcher[@]} = 0 ] || launcher=("${launcher[@]::${#launcher[@]}-1}" env -u CCACHE_BASEDIR -u CCACHE_NOHASHDIR "${launcher[-1]}")
fi
${launcher[@]+"${launcher[@]}"} "$@"
# The rule that the compiler wrote for make names what it read. Without a sum the cache reads the header itself.
headers=$(sed -e '1s/^[^:]*: *//' -e 's/ *\\$//' "$rule" | tr -s ' ' '\n' | sed '/^$/d')
if sum=$(xargs cat <<<"$headers" | sha256sum); then
  printf '%s\n' "${sum%% *}" >"$header.sum.tmp"
  mv "$header.sum.tmp" "$header.sum"
fi
