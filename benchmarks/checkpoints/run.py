"""What saving costs a training run: the same steps with a checkpoint every so many of them, and with none.

    .venv/bin/python benchmarks/checkpoints/run.py [--pairs 7] [--cases cnn-1,resnet18-2] [--write-docs]

AdamW, so that a checkpoint holds three times the parameters. The time goes from the first row of metrics to the last;
between them four checkpoints are copied and written in the background. Both sides save once more at the end, which is
not counted. The sides are taken in turn; the slowdown is the median over the pairs.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from report import load_average, machine, write_docs  # noqa: E402

# Model, ranks: batch of all ranks, steps between checkpoints. Each is about five seconds on a core.
CASES = {("mlp", 1): (128, 1500), ("cnn", 1): (64, 150), ("resnet18", 1): (32, 40), ("cnn", 2): (64, 200),
         ("resnet18", 2): (32, 40)}
CHECKPOINTS = 4
TARGET = 1.03


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="timed runs of each side (default: 7)")
    parser.add_argument("--cases", default=",".join(f"{model}-{ranks}" for model, ranks in CASES), help="MODEL-RANKS")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def run(model, ranks, saving, folder):
    """Seconds between the first and the last row of metrics, and the bytes of a checkpoint."""
    batch, every = CASES[model, ranks]
    steps = CHECKPOINTS * every + every // 2
    muster = str(ROOT / "build" / "bin" / "muster")
    launch = [muster, "run", "--nproc-per-node", str(ranks), "--", muster] if ranks > 1 else [muster]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        out = Path(name) / "run"
        words = [*launch, "train", "--model", model, "--optimizer", "adamw", "--batch-size", batch, "--max-steps", steps,
                 "--epochs", 100, "--validation-samples", 0, "--log-every", every // 2, "--output", out]
        words += ["--checkpoint-every", every] if saving else []
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=os.environ | {"OMP_NUM_THREADS": "1"})
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        rows = [row for row in rows if row["phase"] == "train"]
        newest = out / "checkpoints" / (out / "latest").read_text().strip().split("/")[-1]
        size = sum(file.stat().st_size for file in newest.iterdir())
    if rows[-1]["step"] != steps:
        sys.exit(f"checkpoints: {model} ended at step {rows[-1]['step']} of {steps}")
    return rows[-1]["elapsed_s"] - rows[0]["elapsed_s"], size


def measure(model, ranks, pairs, folder):
    times = {True: [], False: []}
    run(model, ranks, True, folder)
    for turn in range(pairs):
        for saving in (True, False) if turn % 2 else (False, True):
            seconds, size = run(model, ranks, saving, folder)
            times[saving].append(seconds)
            print(model, ranks, "saving" if saving else "plain", f"{seconds:.3f} s", file=sys.stderr)
    slowdown = statistics.median(a / b for a, b in zip(times[True], times[False]))
    lost = statistics.median(a - b for a, b in zip(times[True], times[False])) / CHECKPOINTS
    return times, slowdown, lost, size


def row(model, ranks, times, slowdown, lost, size):
    every = CASES[model, ranks][1]
    plain = statistics.median(times[False])
    between = plain / CHECKPOINTS  # the rows span exactly CHECKPOINTS intervals
    cells = [f"{model}, {ranks}", f"{size / 1e6:.0f}", f"{every} ({between:.1f} s)"]
    cells += [f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})" for values in times.values()]
    return "| " + " | ".join([*cells, f"{1000 * lost:.0f}", f"{slowdown:.3f}"]) + " |"


HEADER = ("| model, ranks | checkpoint, MB | steps between them | with checkpoints, s | without, s | cost of one, ms | "
          "slowdown |\n" + "|---" * 7 + "|")


def main():
    arguments = parse_arguments()
    load = load_average("checkpoints")
    lines = []
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        for case in arguments.cases.split(","):
            model, ranks = case.rsplit("-", 1)
            lines.append(row(model, int(ranks), *measure(model, int(ranks), arguments.pairs, folder)))
            print(lines[-1], flush=True)
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; one thread per rank, median "
            f"(least–most) of {arguments.pairs} runs each, taken in turn; target: a slowdown of at most {TARGET}:\n"
            f"`benchmarks/checkpoints/run.py {' '.join(sys.argv[1:])}`\n\n{HEADER}\n" + "\n".join(lines))
    print(text)
    if arguments.write_docs:
        write_docs("checkpoints", text)


if __name__ == "__main__":
    main()
