#!/usr/bin/env bash
# Runs every benchmark against its peer and puts the tables into docs/benchmarks.md. Needs a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/parity.sh --venv-only
for run in benchmarks/*/run.py benchmarks/*/*/run.py; do
  .venv/bin/python "$run" --write-docs
done
