#!/usr/bin/env python3
"""Learning curves for honest tests of schedulers: trains small MLPs and CNNs on Fashion-MNIST, 27 epochs each, with the `muster train`
program, and keeps what each epoch's validation said and how long an epoch took.

    make.py BUILD [--configs 300] [--from 0] [--epochs 27] [--samples 6000] [--output curves.csv.gz]

Configuration N is a function of N alone, so that the table can be made in parts, and goes on where it ended: what the output has
is left alone. An epoch's time is what passed or, where that is less, the processor's time: on a machine that others load, a program
mostly waits. An epoch is `--samples` of the training samples; validation is on 2,000 others. A configuration whose loss is no
number (a learning rate that is too high) keeps the epochs it had, and then "nan". Columns: config,epoch,loss,accuracy,seconds, and
in configs.csv beside it what each configuration is.
"""
import argparse
import csv
import gzip
import math
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile

HEADER = ["config", "epoch", "loss", "accuracy", "seconds"]


def config(number):
    """A point of the space: the model, its width, the optimizer, learning rate, batch size and weight decay."""
    draw = random.Random(f"learning curves {number}")
    model = draw.choice(["mlp", "mlp", "cnn"])
    width = 2 ** draw.randint(3, 8) if model == "mlp" else 2 ** draw.randint(1, 4)
    layers = draw.randint(1, 3)
    optimizer = draw.choice(["sgd", "adamw"])
    lr = math.exp(draw.uniform(math.log(1e-3), math.log(1))) * (1 if optimizer == "sgd" else 0.05)
    return {"config": number, "model": model, "width": width, "layers": layers if model == "mlp" else "", "optimizer": optimizer,
            "lr": float(f"{lr:.4g}"), "batch_size": 2 ** draw.randint(4, 8), "weight_decay": draw.choice([0, 1e-4, 1e-3])}


def words(drawn, epochs, samples, output):
    spec = f"mlp:hidden={drawn['width']},layers={drawn['layers']}" if drawn["model"] == "mlp" else f"cnn:width={drawn['width']},hidden=32"
    optimizer = f"{drawn['optimizer']}:weight_decay={drawn['weight_decay']}" + (",momentum=0.9" if drawn["optimizer"] == "sgd" else "")
    return ["train", "--model", spec, "--data", "fashion-mnist", "--optimizer", optimizer, "--lr", str(drawn["lr"]),
            "--batch-size", str(drawn["batch_size"]), "--limit-train-batches", str(max(1, samples // drawn["batch_size"])),
            "--validation-samples", "2000", "--limit-test-batches", "0", "--epochs", str(epochs), "--seed", str(drawn["config"]),
            "--workers", "0", "--tensorboard", "off", "--keep-checkpoints", "1", "--output", output]


def processor_seconds():
    """Of all programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def train(program, drawn, epochs, samples):
    """Rows of HEADER."""
    with tempfile.TemporaryDirectory() as folder:
        before = processor_seconds()
        done = subprocess.run([program, *words(drawn, epochs, samples, folder + "/run")], capture_output=True, text=True)
        path = pathlib.Path(folder, "run/metrics.csv")
        rows = [row for row in csv.DictReader(path.open()) if row["phase"] == "validate"] if path.exists() else []
        if not rows and "nan" not in done.stderr and "not finite" not in done.stderr:
            raise SystemExit(f"configuration {drawn['config']} failed: {done.stderr[-2000:]}")
    seconds = min(float(rows[-1]["elapsed_s"]), processor_seconds() - before) / len(rows) if rows else 0.1
    curve = [(float(row["loss"]), float(row["accuracy"])) for row in rows] + [(math.nan, math.nan)] * (epochs - len(rows))
    return [[drawn["config"], epoch, f"{loss:.5g}", f"{accuracy:.4g}", f"{seconds:.3g}"]
            for epoch, (loss, accuracy) in enumerate(curve, 1)]


def read(path):
    if not path.exists():
        return []
    with gzip.open(path, "rt") as file:
        return list(csv.reader(file))[1:]


def write(path, rows):
    """Whole or not at all; without the time in its header, so that equal tables are equal files."""
    new = path.with_suffix(".new")
    with new.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        packed.write("".join(",".join(map(str, row)) + "\n" for row in [HEADER, *rows]).encode())
    shutil.move(new, path)


def write_configs(path, rows):
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(config(0)), lineterminator="\n")
        table.writeheader()
        table.writerows(config(number) for number in sorted({int(row[0]) for row in rows}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--configs", type=int, default=300)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--epochs", type=int, default=27)
    parser.add_argument("--samples", type=int, default=6000)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).with_name("curves.csv.gz"))
    flags = parser.parse_args()
    rows = read(flags.output)
    have = {int(row[0]) for row in rows}
    for number in range(flags.first, flags.configs):
        if number in have:
            continue
        rows += train(str(flags.build / "bin/muster"), config(number), flags.epochs, flags.samples)
        rows.sort(key=lambda row: (int(row[0]), int(row[1])))
        write(flags.output, rows)
        write_configs(flags.output.with_name("configs.csv"), rows)
        print(f"{number}: {config(number)}", file=sys.stderr, flush=True)
    write_configs(flags.output.with_name("configs.csv"), rows)


if __name__ == "__main__":
    main()
