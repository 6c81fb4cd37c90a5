#!/usr/bin/env bash
# Runs every benchmark against its peer and puts the tables into docs/benchmarks.md. Needs a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/parity.sh --venv-only
<<<<<<< HEAD
for run in benchmarks/*/run.py benchmarks/*/*/run.py; do
=======
for run in benchmarks/*/run.py benchmarks/data/*/run.py benchmarks/peers/*/run.py; do
>>>>>>> h/decode
  .venv/bin/python "$run" --write-docs
done
