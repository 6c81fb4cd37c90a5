"""Training: `muster train` beside the same training in Python, for speed, CPU time, memory and the losses themselves.

    .venv/bin/python benchmarks/peers/train/run.py [--pairs 10] [--models mlp,cnn] [--settings 1x1,2x1] [--write-docs]

Builds our side, runs the sides in turn, and prints a Markdown table; --write-docs puts it into
docs/benchmarks.md. Settings are RANKSxTHREADS. Data: the first part of Fashion-MNIST's own images, so that an epoch
takes up to a second. An epoch's seconds, taken inside each side, go from the end of one epoch's training to the end
of the next one's: saving and training. A run is refused if a loss of the first 50 steps differs by more than 1e-5, or the later work does not match.
"""

import argparse
import datetime
import gzip
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from report import load_average, machine, torch_version, write_docs  # noqa: E402

PEER = Path(__file__).resolve().parent / "peer.py"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
TEST_SAMPLES = 500
# Global batch, steps per epoch: an epoch of a quarter to one second on one core.
MODELS = {"mlp": (128, 80), "cnn": (64, 25), "resnet18": (32, 10), "lstm": (128, 30)}
CURVE_STEPS, CURVE_TOLERANCE = 50, 1e-5
SIDES = ["Muster", "Python"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="timed runs of each side (default: 10)")
    parser.add_argument("--epochs", type=int, default=3, help="per run; the first is not counted (default: 3)")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--settings", default="2x1,1x1", help="ranks x threads per rank, by commas (default: 2x1,1x1)")
    parser.add_argument("--optimizer", default="fused", choices=["fused", "foreach", "default"], help="Python's kernels")
    parser.add_argument("--loader", default="indexed", choices=["indexed", "dataloader"], help="Python's loader")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--require", type=float, default=0, metavar="X", help="exit 1 if a speed is below X of Python's")
    parser.add_argument("--no-curves", action="store_true", help="leave the losses of the first 50 steps out")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    return parser.parse_args()


def write_part(folder, split, samples):
    """The first samples of a split as IDX files of their own."""
    for kind, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        name = f"{split}-{kind}-ubyte.gz"
        with gzip.open(FASHION_MNIST / name) as file:
            content = bytearray(file.read(header + samples * size))
        content[4:8] = struct.pack(">I", samples)
        with gzip.open(folder / name, "wb", compresslevel=1) as file:
            file.write(content)


def make_data(model, steps, folder):
    data = folder / f"{model}-{steps}"
    if not data.exists():
        data.mkdir()
        write_part(data, "train", MODELS[model][0] * steps)
        write_part(data, "t10k", TEST_SAMPLES)
    return data


class Case:
    """One model on one number of ranks and threads, with both sides' commands."""

    def __init__(self, arguments, model, setting, folder):
        self.arguments, self.model, self.folder = arguments, model, folder
        self.ranks, self.threads = (int(part) for part in setting.split("x"))

    def command(self, side, data, out, epochs, log_every):
        common = ["--model", self.model, "--data-dir", data, "--batch-size", MODELS[self.model][0], "--epochs", epochs]
        ranks = ["--nproc-per-node", self.ranks]
        if side == "Muster":
            muster = ROOT / self.arguments.build / "bin" / "muster"
            launch = [muster, "run", *ranks, "--", muster] if self.ranks > 1 else [muster]
            words = [*launch, "train", *common, "--validation-samples", 0, "--log-every", log_every, "--output", out / "run",
                     "--backend", "gloo"]  # as Python; over shm see ddp_step
        else:
            torchrun = Path(sys.executable).parent / "torchrun"
            launch = [torchrun, *ranks] if self.ranks > 1 else [sys.executable]
            words = [*launch, PEER, *common, "--optimizer", self.arguments.optimizer, "--loader", self.arguments.loader,
                     "--out", out]
        return [str(word) for word in words]

    def run(self, side, steps, epochs, log_every):
        """What the job used, the median seconds of its epochs after the first, and the mean loss of each log_every steps."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            out, data = Path(name), make_data(self.model, steps, self.folder)
            used = job.run(self.command(side, data, out, epochs, log_every), out, self.threads, self.ranks)
            if side == "Muster":
                rows = [json.loads(line) for line in (out / "run" / "metrics.jsonl").read_text().splitlines()]
                rows = [row for row in rows if row["phase"] == "train"]
                ended, losses = [row["elapsed_s"] for row in rows if row["step"] % steps == 0], [row["loss"] for row in rows]
            else:
                notes = [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(self.ranks)]
                ended = notes[0]["ended"]
                means = [statistics.mean(values) for values in zip(*(note["losses"] for note in notes))]
                losses = [statistics.mean(means[at:at + log_every]) for at in range(0, len(means), log_every)]
        epochs = [after - before for before, after in zip(ended, ended[1:])]
        return used | {"epoch": statistics.median(epochs or ended), "losses": losses}

    def curve_difference(self):
        """The largest difference between the sides' losses in the first 50 steps, step by step."""
        ours, theirs = (self.run(side, CURVE_STEPS, 1, 1)["losses"] for side in SIDES)
        if len(ours) != CURVE_STEPS or len(theirs) != CURVE_STEPS:
            sys.exit(f"train: {len(ours)} and {len(theirs)} losses instead of {CURVE_STEPS}")
        difference = max(abs(a - b) for a, b in zip(ours, theirs))
        if not difference <= CURVE_TOLERANCE:
            print(*(f"{a:.7f} {b:.7f}" for a, b in zip(ours, theirs)), sep="\n", file=sys.stderr)
            sys.exit(f"train: {self.model} on {self.ranks} ranks: losses differ by {difference}")
        return difference

    def measure(self):
        steps = MODELS[self.model][1]
        results = {side: [] for side in SIDES}
        warm_up = 1 if self.arguments.no_curves else 0  # else the curves have filled the page cache
        for turn in range(self.arguments.pairs + warm_up):
            for side in SIDES if turn % 2 else reversed(SIDES):
                result = self.run(side, steps, self.arguments.epochs, steps)
                if len(result["losses"]) != self.arguments.epochs:
                    sys.exit(f"train: {side} trained {len(result['losses'])} epochs of {self.arguments.epochs}")
                if turn >= warm_up:
                    results[side].append(result)
                    print(self.model, self.ranks, side, {k: v for k, v in result.items() if k != "losses"}, file=sys.stderr)
        return results


def show(results, key, digits):
    values = [run[key] for run in results]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def row(case, results, difference):
    """One line of the table, and our speed as a share of Python's: the median over the pairs."""
    ours, theirs = (results[side] for side in SIDES)
    speed = statistics.median(other["epoch"] / mine["epoch"] for mine, other in zip(ours, theirs))
    batch, steps = MODELS[case.model]
    cells = [f"{case.model}, {case.ranks} x {case.threads}", f"{steps} x {batch}", show(ours, "epoch", 3),
             show(theirs, "epoch", 3), f"{speed:.3f}"]
    for key, digits in (("cpu", 1), ("resident", 0), ("own", 0)):
        cells.append(" / ".join(f"{statistics.median(run[key] for run in side):.{digits}f}" for side in (ours, theirs)))
    cells.append("" if difference is None else f"{difference:.1e}")
    return "| " + " | ".join(cells) + " |", speed


HEADER = ("| model, ranks x threads | steps x global batch | ours, s per epoch | Python, s per epoch | our speed / Python's "
          "| CPU of the job, s | peak RSS, MiB | of it anonymous, MiB | largest difference of losses |\n" + "|---" * 9 + "|")


def main():
    arguments = parse_arguments()
    load = load_average("train")
    if not FASHION_MNIST.is_dir():
        sys.exit(f"train: {FASHION_MNIST} is not there\nhint: install Debian's dataset-fashion-mnist")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "muster"], check=True, stdout=sys.stderr)
    lines, speeds = [], []
    with tempfile.TemporaryDirectory() as folder:
        for setting in arguments.settings.split(","):
            for model in arguments.models.split(","):
                case = Case(arguments, model, setting, Path(folder))
                difference = None if arguments.no_curves else case.curve_difference()
                print(f"load average {os.getloadavg()[0]:.2f}", file=sys.stderr)
                line, speed = row(case, case.measure(), difference)
                print(line, flush=True)
                lines.append(line)
                speeds.append(speed)
    words = " ".join(["benchmarks/peers/train/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on both "
            f"sides, median (least–most) of {arguments.pairs} runs each of {arguments.epochs} epochs, taken in turn:\n"
            f"`{words}`\n\n{HEADER}\n" + "\n".join(lines))
    print(text)
    if arguments.write_docs:
        write_docs("train", text)
    if min(speeds) < arguments.require:
        sys.exit(f"train: {min(speeds):.3f} of Python's speed, and {arguments.require:g} are required")


if __name__ == "__main__":
    main()
