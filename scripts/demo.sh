#!/usr/bin/env bash
# The demo: the CNN of the model room on Fashion-MNIST, two ranks on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(mktemp -d -p . -u runs/demo-XXXXXX)
started=$SECONDS
echo "demo: muster run --nproc-per-node 2 -- muster train --model cnn --data fashion-mnist --epochs 4 --output $output" >&2
build/bin/muster run --nproc-per-node 2 --no-prefix -- \
  muster train --model cnn --data fashion-mnist --epochs 4 --output "$output"
cat >&2 <<EOF

trained in $((SECONDS - started)) s. What to try next:
  build/bin/muster train --resume $output --epochs 6      go on where this run ended
  build/bin/muster list models                            other models: --model lenet, --model mlp:hidden=256
  build/bin/muster run --nproc-per-node 2 -- PROGRAM      start a program of your own on two ranks
  less $output/metrics.csv                                what was measured; checkpoints are beside it
  docs/first-training-program.md                          your own LibTorch program on two ranks
EOF
