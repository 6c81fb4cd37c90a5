#!/usr/bin/env bash
# clang-tidy-19 over the sources, quietly: one line per finding, exit code 1 if there is any.
#   scripts/tidy.sh             names in every source, and all of .clang-tidy in those that differ from origin/main. For names,
#                               an area's sources are read together (build-tidy/names): LibTorch's headers cost most of the time
#   scripts/tidy.sh FILE…       all of .clang-tidy in these
#   scripts/tidy.sh --names FILE…   names only
# MUSTER_TIDY_BASE names another commit to compare with; JOBS the processes. Sources are read as build-tidy compiles them.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build-tidy
jobs=${JOBS:-$(nproc)}
[ -f $build/compile_commands.json ] || { echo "tidy: no $build; run \`make tidy\`" >&2; exit 2; }

names=$build/names
[ -f $names/compile_commands.json ] || { echo "tidy: no $names; run \`make tidy\`" >&2; exit 2; }

known() {  # the sources on stdin that the build compiles (a private header's or a consumer's project is not among them)
  grep -Fxf <(sed -n "s|^  \"file\": \"$PWD/\(.*\)\"\$|\1|p" $build/compile_commands.json | grep -v '^build') || true
}
tidy() {  # tidy ARGUMENTS: over the sources on stdin
  xargs -r -n 1 -P "$jobs" clang-tidy-19 -p $build --quiet "$@" 2> >(grep -v 'warnings generated\|^Suppressed\|^Use -header' >&2)
}
# Names in all sources, which unity sources include, as HeaderFilterRegex names headers.
names() {
  sed -n 's|^  "file": "\(.*\)"$|\1|p' $names/compile_commands.json |
    awk -v build="$PWD/build" 'index($0, build) != 1 || /\/unity\//' | sort -u |
    xargs -r -n 1 -P "$jobs" clang-tidy-19 -p $names --quiet "${names_only[@]}" \
      --header-filter='/(muster|cli|tests|examples|benchmarks)/[^.]*\.(h|cpp)$' \
      2> >(grep -v 'warnings generated\|^Suppressed\|^Use -header' >&2)
}
changed() {
  local base=${MUSTER_TIDY_BASE:-}
  [ -n "$base" ] || base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
  git diff --name-only --diff-filter=d "$base" -- '*.cpp' | known
}

names_only=(--checks='-*,readability-identifier-naming')
case ${1:-} in
  '') status=0
      names || status=1
      changed | tidy || status=1
      exit $status ;;
  --names) shift; printf '%s\n' "$@" | tidy "${names_only[@]}" ;;
  *) printf '%s\n' "$@" | tidy ;;
esac
