"""A real study: Fashion-MNIST, 20 trials with ASHA on 2 cores, under `muster tune` and under Ray Tune, the trials the same
program (`muster train`) with the same 20 configurations.

    .venv/bin/python benchmarks/peers/tune_fashion/run.py [--rounds 3] [--trials 20] [--max-t 10] [--write-docs]

Builds our side, runs the sides in turn, and prints a Markdown table; --write-docs puts it into docs/benchmarks.md. Seconds of
`muster tune` are of the whole program; of Ray of tune.run alone, its imports and ray.init left out.
"""

import argparse
import datetime
import importlib.metadata
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "benchmarks" / "peers"), str(HERE)]
from report import load_average, machine, write_docs  # noqa: E402
from study import STUDY, train_command  # noqa: E402

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
PLACEHOLDERS = {"l1": "{l1}", "lr": "{lr}", "batch_size": "{batch_size}"}
SIDES = {"Muster": None, "Ray Tune, an actor per trial": [], "Ray Tune, reuse_actors": ["--reuse-actors"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default: 3)")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--max-t", type=int, default=10, help="epochs of a trial that is not stopped (default: 10)")
    parser.add_argument("--sides", default=",".join(SIDES), help="by commas, as the start of their names")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def call(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tune_fashion: {words} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Study:
    def __init__(self, arguments, seed):
        self.arguments = arguments
        self.muster = (ROOT / arguments.build / "bin" / "muster").resolve()
        command = json.dumps(train_command(self.muster, PLACEHOLDERS, FASHION_MNIST, arguments.max_t))
        self.text = STUDY.format(trials=arguments.trials, seed=seed, max_t=arguments.max_t, command=command)

    def run_muster(self, folder):
        (folder / "study.toml").write_text(self.text)
        start = time.perf_counter()
        call([self.muster, "tune", "study.toml"], folder)
        seconds = time.perf_counter() - start
        # Optuna's tables: one row per report of a trial.
        with sqlite3.connect(folder / "fashion.db") as database:
            rows = database.execute(
                "SELECT trial_id, MAX(step), intermediate_value FROM trials LEFT JOIN trial_intermediate_values USING (trial_id) "
                "GROUP BY trial_id").fetchall()
        return {"seconds": seconds, "trials": [{"epochs": step, "last": value} for _, step, value in rows]}

    def run_ray(self, folder, settings):
        (folder / "study.toml").write_text(self.text)
        lines = call([self.muster, "tune", "study.toml", "--dry-run", self.arguments.trials, "--json"], folder).splitlines()
        (folder / "configs.json").write_text(json.dumps([json.loads(line) for line in lines]))
        out = call([sys.executable, HERE / "ray_study.py", "--muster", self.muster, "--configs", "configs.json", "--max-t",
                    self.arguments.max_t, "--data-dir", FASHION_MNIST, "--folder", folder, *settings], folder)
        return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])

    def run(self, settings):
        with tempfile.TemporaryDirectory() as name:
            result = self.run_muster(Path(name)) if settings is None else self.run_ray(Path(name), settings)
        bad = [one for one in result["trials"] if one["last"] is None]
        if bad or len(result["trials"]) != self.arguments.trials:
            sys.exit(f"tune_fashion: {len(result['trials'])} trials, of which {len(bad)} reported nothing: {bad[:3]}")
        epochs = [one["epochs"] for one in result["trials"]]
        return {"seconds": result["seconds"], "epochs": sum(epochs), "whole": epochs.count(self.arguments.max_t),
                "best": max(one["last"] for one in result["trials"]), "per_epoch": result["seconds"] / sum(epochs)}


def show(runs, key, digits):
    values = [run[key] for run in runs]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


HEADER = ("| study under | wall time, s | epochs spent | trials with all epochs | wall time per epoch, s | best accuracy |\n"
          + "|---" * 6 + "|")


def main():
    arguments = parse_arguments()
    load = load_average("tune_fashion")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "muster"], check=True, stdout=sys.stderr)
    sides = [side for side in SIDES if any(side.startswith(name) for name in arguments.sides.split(","))]
    runs = {side: [] for side in sides}
    for turn in range(arguments.rounds):
        study = Study(arguments, seed=turn + 1)
        for side in sides if turn % 2 else reversed(sides):
            runs[side].append(study.run(SIDES[side]))
            print(turn, side, runs[side][-1], file=sys.stderr, flush=True)
    lines = ["| " + " | ".join([side, show(some, "seconds", 1), show(some, "epochs", 0), show(some, "whole", 0),
                                show(some, "per_epoch", 3), show(some, "best", 4)]) + " |" for side, some in runs.items()]
    words = " ".join(["benchmarks/peers/tune_fashion/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; ray {importlib.metadata.version('ray')}; "
            f"{arguments.trials} trials of at most {arguments.max_t} epochs, two at once on a core each, {arguments.rounds} studies "
            f"per side (seeds 1, 2, …), taken in turn:\n`{words}`\n\n{HEADER}\n" + "\n".join(lines))
    print(text)
    if arguments.write_docs:
        write_docs("tune_fashion", text)


if __name__ == "__main__":
    main()
