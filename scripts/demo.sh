#!/usr/bin/env bash
# The demo: the CNN of the model room on Fashion-MNIST, two ranks on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(mktemp -u runs/demo-XXXXXX)
started=$SECONDS
echo "demo: five epochs take a minute or two on two quiet cores; Ctrl-C stops, and --resume goes on" >&2
echo "demo: muster run --nproc-per-node 2 -- muster train --model cnn --data fashion-mnist --epochs 5 --output $output" >&2
build/bin/muster run --nproc-per-node 2 --no-prefix -- \
  muster train --model cnn --data fashion-mnist --epochs 5 --output "$output"
cat >&2 <<EOF

trained in $((SECONDS - started)) s. What to try next:
  go on where this run ended   build/bin/muster train --resume $output --epochs 6
  look at what was measured    less $output/metrics.csv
  another model                build/bin/muster train --model mlp:hidden=256 --epochs 2
  a program of your own        docs/first-training-program.md
EOF
