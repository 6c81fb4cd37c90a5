#!/usr/bin/env python3
"""Do two builds of muster train to the same bits? For changes that must not change numbers.

  scripts/same_runs.py OLD/build/bin/muster build/bin/muster       compare; exit 1 if a run differs
  scripts/same_runs.py build/bin/muster                            print the table of hashes
  scripts/same_runs.py -k resume OLD NEW                           runs whose name has `resume`
  scripts/same_runs.py BIN BIN --more='--device fake'              with more flags for the second one

Each run is trained by both programs, one after the other, in folders of their own: models x
strategies x precision x accumulation x resume, on synthetic data, a minute or two in all. A hash is
over weights, optimizer state and generators of every checkpoint kept, the columns of metrics.csv
that are not times or empty, and the confusion matrix. Hashes hold for one machine: MKL's sums depend on it.

A build that has --validation-split is given `tail`, which is what builds before it did.
"""

import argparse
import csv
import functools
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

TIMES = {"samples_per_s", "elapsed_s", "epoch_s"}
SMALL = "--data synthetic:samples=120,test_samples=40 --batch-size 16 --log-every 1 --workers 1"
ONE, TWO, THREE = "1", "2", "3"
THREADS = "threads"

# name, ranks, flags, flags of a second process that resumes (None: none).
RUNS = [
    ("mlp", ONE, "--model mlp:hidden=32 --epochs 2", None),
    ("mlp adamw cosine", ONE, "--model mlp:hidden=32 --epochs 2 --optimizer adamw --lr 0.01 --lr-schedule cosine", None),
    ("mlp clip smoothing", ONE, "--model mlp:hidden=32 --epochs 2 --gradient-clip-val 0.5 --label-smoothing 0.1", None),
    ("mlp accumulate", ONE, "--model mlp:hidden=32 --epochs 2 --accumulate-grad-batches 3", None),
    ("mlp drop_last top_k", ONE, "--model mlp:hidden=32 --epochs 2 --drop-last --top-k 3", None),
    ("mlp best", ONE, "--model mlp:hidden=32 --epochs 4 --patience 1 --test-weights best --monitor validate_loss", None),
    ("mlp bf16", ONE, "--model mlp:hidden=32 --epochs 2 --precision bf16-mixed", None),
    ("mlp 16", ONE, "--model mlp:hidden=32 --epochs 2 --precision 16-mixed", None),
    ("lenet", ONE, "--model lenet --epochs 1", None),
    ("cnn", ONE, "--model cnn:width=8,hidden=16 --epochs 2", None),
    ("cnn two workers", ONE, "--model cnn:width=8,hidden=16 --epochs 2 --workers 2", None),
    ("cnn bf16 accumulate", ONE, "--model cnn:width=8,hidden=16 --epochs 2 --precision bf16-mixed --accumulate-grad-batches 2", None),
    ("lstm dropout", ONE, "--model lstm:hidden=16,layers=2,dropout=0.3 --epochs 2", None),
    ("transformer dropout", ONE, "--model transformer:width=16,feedforward=32 --epochs 2", None),
    ("resnet18", ONE, "--model resnet18 --epochs 1 --max-steps 3", None),
    ("alexnet", ONE, "--model alexnet:hidden=64 --epochs 1 --max-steps 2", None),
    ("vgg11 batch_norm", ONE, "--model vgg11:hidden=32,batch_norm=true --epochs 1 --max-steps 2", None),
    ("plateau", ONE, "--model mlp:hidden=32 --epochs 3 --lr-schedule plateau:patience=0,threshold=0.5", None),
    ("one_cycle adam", ONE, "--model mlp:hidden=32 --epochs 2 --optimizer adam --lr-schedule one_cycle", None),
    ("cnn ddp", TWO, "--model cnn:width=8,hidden=16 --epochs 2", None),
    ("cnn ddp bf16 accumulate", TWO, "--model cnn:width=8,hidden=16 --epochs 2 --precision bf16-mixed --accumulate-grad-batches 2", None),
    ("transformer ddp 16", TWO, "--model transformer:width=16,feedforward=32 --epochs 2 --precision 16-mixed", None),
    ("mlp ddp three ranks", THREE, "--model mlp:hidden=32 --epochs 2 --batch-size 12", None),
    ("mlp ddp gloo", TWO, "--model mlp:hidden=32 --epochs 2 --backend gloo", None),
    ("mlp zero1 adam", TWO, "--model mlp:hidden=32 --epochs 2 --strategy zero1 --optimizer adam", None),
    ("mlp zero2 adam clip", TWO, "--model mlp:hidden=32 --epochs 2 --strategy zero2 --optimizer adam --gradient-clip-val 0.5", None),
    ("mlp zero1 bfloat16", TWO, "--model mlp:hidden=32 --epochs 2 --strategy zero1:dtype=bfloat16 --optimizer adam", None),
    ("lstm dp", THREADS, "--model lstm:hidden=16,dropout=0.3,layers=2 --epochs 2", None),
    ("cnn dp accumulate", THREADS, "--model cnn:width=8,hidden=16 --epochs 2 --accumulate-grad-batches 2", None),
    ("mlp resume inside epoch", ONE, "--model mlp:hidden=32 --epochs 2 --checkpoint-every 2 --max-steps 5", "--max-steps 0"),
    ("transformer resume", ONE, "--model transformer:width=16,feedforward=32 --epochs 1", "--epochs 2"),
    ("cnn ddp resume", TWO, "--model cnn:width=8,hidden=16 --epochs 2 --max-steps 9", "--max-steps 0"),
    ("mlp zero2 16 resume", TWO, "--model mlp:hidden=32 --epochs 2 --strategy zero2 --optimizer adamw --precision 16-mixed --max-steps 9", "--max-steps 0"),
    ("lstm dp resume", THREADS, "--model lstm:hidden=16,dropout=0.3,layers=2 --epochs 2 --max-steps 9", "--max-steps 0"),
]


def command(muster, ranks, words, folder):
    train = [muster, "train", *words]
    if ranks == THREADS:
        return [*train, "--strategy", "dp", "--devices", "2"] if "--resume" not in words else train
    if ranks == ONE:
        return train
    return [muster, "run", "--nproc-per-node", ranks, "--no-prefix", "--", *train]


@functools.cache
def flags_of(muster):
    """What this build needs said to do as the first one with runs like these."""
    told = subprocess.run([muster, "train", "--help"], capture_output=True, text=True, check=True)
    return ["--validation-split", "tail"] if "--validation-split" in told.stdout else []


def hash_of(folder):
    """Of what must not change in a run's folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("checkpoints/*/*.safetensors")):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            digest.update(repr(sorted((k, v) for k, v in row.items() if v and k not in TIMES)).encode())
    confusion = folder / "confusion_matrix.csv"
    if confusion.exists():
        digest.update(confusion.read_bytes())
    return digest.hexdigest()[:16]


def train(muster, ranks, flags, resume, folder, more):
    words = flags.split()
    said = {word for word in words if word.startswith("--")}
    small = SMALL.split()
    for flag, value in zip(small[::2], small[1::2]):
        if flag not in said:
            words += [flag, value]
    rounds = [[*words, *flags_of(muster), "--output", str(folder)]]
    if resume is not None:
        rounds.append([*resume.split(), "--resume", str(folder)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for each in rounds:
        done = subprocess.run(
            command(muster, ranks, [*each, *more], folder), env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            return "failed: " + (done.stderr.strip().splitlines() or ["?"])[-1]
    return hash_of(folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="+", metavar="MUSTER", help="one, or two to compare")
    parser.add_argument("-k", default="", help="only runs whose name has this in it")
    parser.add_argument("--more", default="", help="flags for the second program alone")
    asked = parser.parse_args()
    if len(asked.programs) > 2:
        parser.error("one or two programs")
    runs = [run for run in RUNS if asked.k in run[0]]
    if not runs:
        parser.error(f"no run is called {asked.k!r}")
    programs = [str(pathlib.Path(program).resolve()) for program in asked.programs]
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for index, (name, ranks, flags, resume) in enumerate(runs):
            hashes = [
                train(
                    program,
                    ranks,
                    flags,
                    resume,
                    pathlib.Path(scratch) / f"{index}-{which}",
                    asked.more.split() if which else [],
                )
                for which, program in enumerate(programs)
            ]
            bad = len(set(hashes)) > 1 or any(text.startswith("failed") for text in hashes)
            wrong += bad
            print(f"{name:28}", *hashes, "DIFFERS" if bad else "", flush=True)
    print(f"{len(runs) - wrong} of {len(runs)} runs are alike")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
