"""Training on one GPU: `muster train` beside the same training in Python, on the same device.

    python3 benchmarks/peers/train/gpu.py [--pairs 3] [--models mlp,cnn,resnet18,lstm,transformer] [--build build]

For a machine with a GPU, whose python3 has PyTorch of the LibTorch that Muster was built with. Sides in turn: Muster; Python
with batches that go by pinned memory, as a careful user writes it; Python with all images on the device, which spares the way.
Images are drawn at random, in Fashion-MNIST's shape: what they show costs nothing. Prints Markdown: milliseconds per step (epochs
after the first, saving included), the whole command for a run of one step (start, data, step, test, saving), and how far the
losses of the first 50 steps are from each other.
"""

import argparse
import datetime
import gzip
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run

# Batch and steps of an epoch.
MODELS = {"mlp": (128, 400), "cnn": (128, 400), "resnet18": (128, 150), "lstm": (128, 400),
          "transformer:width=256,heads=8,layers=4,feedforward=1024,dropout=0": (128, 200)}
RESIDENT = "Python, resident"
SIDES = [*run.SIDES, RESIDENT]


def write_random(folder, split, samples):
    draws = random.Random(samples)
    for kind, header, body in (("images-idx3", struct.pack(">IIII", 2051, samples, 28, 28), draws.randbytes(samples * 784)),
                               ("labels-idx1", struct.pack(">II", 2049, samples),
                                bytes(value % 10 for value in draws.randbytes(samples)))):
        with gzip.open(folder / f"{split}-{kind}-ubyte.gz", "wb", compresslevel=1) as file:
            file.write(header + body)


def make_data(model, steps, folder):
    data = folder / f"{model.split(':')[0]}-{steps}"
    if not data.exists():
        data.mkdir()
        write_random(data, "train", MODELS[model][0] * steps)
        write_random(data, "t10k", 500)
    return data


class GpuCase(run.Case):
    def command(self, side, data, out, epochs, log_every):
        words = super().command("Muster" if side == "Muster" else "Python", data, out, epochs, log_every)
        if side == RESIDENT:
            words[words.index("--loader") + 1] = "resident"
        return [*words, "--device", "cuda"]

    def seconds(self, side):
        """Of the whole command, for a run of one step."""
        began = time.perf_counter()
        self.run(side, 1, 1, 1)
        return time.perf_counter() - began


def row(case, pairs):
    steps = MODELS[case.model][1]
    epochs, whole = ({side: [] for side in SIDES} for _ in range(2))
    curves = {side: case.run(side, run.CURVE_STEPS, 1, 1)["losses"] for side in SIDES[:2]}
    difference = max(abs(a - b) for a, b in zip(*curves.values()))
    for turn in range(pairs):
        for side in SIDES if turn % 2 else reversed(SIDES):
            epochs[side].append(case.run(side, steps, 4, steps)["epoch"] / steps * 1e3)
            whole[side].append(case.seconds(side))
    ratio = [statistics.median(theirs / ours for ours, theirs in zip(epochs["Muster"], epochs[side])) for side in SIDES[1:]]
    sooner = statistics.median(theirs / ours for ours, theirs in zip(whole["Muster"], whole["Python"]))
    cells = [case.model, str(MODELS[case.model][0]), *(f"{statistics.median(epochs[side]):.3f}" for side in SIDES),
             *(f"{value:.2f}" for value in ratio), *(f"{statistics.median(whole[side]):.2f}" for side in SIDES[:2]),
             f"{sooner:.1f}", f"{difference:.1e}"]
    return "| " + " | ".join(cells) + " |"


HEADER = ("| model | batch | Muster, ms per step | Python | Python, images on the device | our speed / Python's | / resident's "
          "| Muster, s for a run of one step | Python | sooner by | largest difference of losses |\n" + "|---" * 11 + "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--models", default="mlp,cnn,resnet18,lstm,transformer")
    parser.add_argument("--build", default="build")
    arguments = parser.parse_args()
    arguments.optimizer, arguments.loader = "fused", "indexed"
    run.MODELS, run.make_data = MODELS, make_data
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    print(f"{datetime.date.today()}, {name.stdout.strip()}, {os.cpu_count()} cores, medians of {arguments.pairs}:\n\n{HEADER}")
    with tempfile.TemporaryDirectory() as folder:
        for short in arguments.models.split(","):
            model = next(name for name in MODELS if name.split(":")[0] == short)
            print(row(GpuCase(arguments, model, "1x4", Path(folder)), arguments.pairs), flush=True)


if __name__ == "__main__":
    main()
