"""Training by two builds of Muster, in turn: what a change costs.

    .venv/bin/python benchmarks/peers/train/builds.py BEFORE/bin/muster AFTER/bin/muster [--pairs 10] [--models mlp,cnn]

The same runs as run.py's, whose sides these are. Prints a Markdown table: seconds per epoch and CPU seconds of the
job of both, and the median over the pairs of BEFORE's / AFTER's.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import run

SIDES = ["before", "after"]


class BuildCase(run.Case):
    def command(self, _, data, out, epochs, log_every):
        words = super().command("Muster", data, out, epochs, log_every)
        muster = str(run.ROOT / self.arguments.build / "bin" / "muster")
        return [str(getattr(self.arguments, self.side)) if word == muster else word for word in words]

    def run(self, side, steps, epochs, log_every):
        self.side = side
        return super().run("Muster", steps, epochs, log_every)


def measure(case, pairs):
    steps = run.MODELS[case.model][1]
    results = {side: [] for side in SIDES}
    for turn in range(pairs + 1):
        for side in SIDES if turn % 2 else reversed(SIDES):
            result = case.run(side, steps, 3, steps)
            if turn > 0:  # the first pair fills the page cache
                results[side].append(result)
    if any(a["losses"] != b["losses"] for a, b in zip(*(results[side] for side in SIDES))):
        print(f"builds: {case.model}: the losses differ", file=sys.stderr)
    return results


def row(case, results):
    cells = [f"{case.model}, {case.ranks} x {case.threads}"]
    for key in ("epoch", "cpu"):
        before, after = (results[side] for side in SIDES)
        ratio = statistics.median(b[key] / a[key] for b, a in zip(before, after))
        cells += [run.show(before, key, 3), run.show(after, key, 3), f"{ratio:.3f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--models", default=",".join(run.MODELS))
    parser.add_argument("--settings", default="1x1")
    parser.set_defaults(build="build")
    arguments = parser.parse_args()
    run.load_average("builds")
    print("| model, ranks x threads | before, s per epoch | after, s per epoch | before / after | CPU before, s | CPU after, s "
          "| before / after |\n" + "|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for setting in arguments.settings.split(","):
            for model in arguments.models.split(","):
                case = BuildCase(arguments, model, setting, Path(folder))
                print(row(case, measure(case, arguments.pairs)), flush=True)
    print(f"load average {os.getloadavg()[0]:.2f} at the end", file=sys.stderr)


if __name__ == "__main__":
    main()
