#!/usr/bin/env bash
# Fails where a source is not as clang-format would write it. `make format` mends it.
set -euo pipefail
cd "$(dirname "$0")/.."
find muster cli tests examples benchmarks \( -name '*.cpp' -o -name '*.h' \) -print0 |
  xargs -0 clang-format --dry-run -Werror --ferror-limit=1
