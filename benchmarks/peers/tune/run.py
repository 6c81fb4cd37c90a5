"""What a tuner costs: studies whose trials do nothing, under Muster, Ray Tune, Optuna and Syne Tune.

    .venv/bin/python benchmarks/peers/tune/run.py [--rounds 5] [--figures trials,reports] [--tuners muster,optuna] [--write-docs]

Builds our side, runs the sides in turn, each study in a process of its own, and prints a Markdown table; --write-docs puts
it into docs/benchmarks.md. See peer.py and tune_overhead.cpp for what is timed.
"""

import argparse
import datetime
import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from report import load_average, machine, write_docs  # noqa: E402

REPORTS = 20
STUDY = """
name = "noop"
metric = "loss"
mode = "min"
num_samples = {trials}
max_concurrent = 2
command = ["{noop}", "{{lr}}"]

[space]
lr = "loguniform(1e-4, 1e-1)"
l1 = "randint(2, 9)"
batch_size = "choice(2, 4, 8, 16)"
"""

# Figure: what one unit is, units per trial, digits, and its sides: name, tuner, case, trials per run.
PER_SECOND, MILLISECONDS, MIB = "per s", "ms each", "MiB per 100,000"
FIGURES = {
    "trials": ("function trials, nothing stored", PER_SECOND, 1, [
        ("Muster", "muster", "trials", 20000),
        ("Optuna, in memory", "optuna", "trials", 2000),
        ("Ray Tune, reuse_actors, no result files", "ray", "trials-reuse", 100),
        ("Ray Tune, an actor per trial, no result files", "ray", "trials", 6)]),
    "reports": ("reports, 20 per function trial, nothing stored", PER_SECOND, REPORTS, [
        ("Muster", "muster", "reports", 10000),
        ("Optuna, in memory", "optuna", "reports", 1000),
        ("Ray Tune, reuse_actors, no result files", "ray", "reports-reuse", 20)]),
    "persisted": ("function trials with 20 reports, stored", PER_SECOND, 1, [
        ("Muster, SQLite, each report stored before its answer", "muster", "persisted", 2000),
        ("the same, durable (fsync)", "muster", "durable", 100),
        ("Optuna, journal file", "optuna", "journal", 200),
        ("Optuna, SQLite", "optuna", "sqlite", 15),
        ("Ray Tune, reuse_actors, result files", "ray", "reports-reuse-files", 20)]),
    "process": ("programs as trials, two at once", MILLISECONDS, 1, [
        ("Muster, `muster tune`, stored", "muster", "process", 400),
        ("Optuna, in memory, n_jobs=2, subprocess.run", "optuna", "process", 200),
        ("Syne Tune, local backend", "syne", "process", 50),
        ("Ray Tune, reuse_actors, subprocess.run", "ray", "process-reuse", 60),
        ("Ray Tune, an actor per trial, subprocess.run", "ray", "process", 6)]),
    "memory": ("memory of the tuner's process", MIB, 1, [
        ("Muster", "muster", "memory", 100000),
        ("Optuna, in memory", "optuna", "memory", 100000)]),  # Ray Tune needs over an hour for so many trials
}
ONCE = {"memory"}  # does not vary, takes long


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each side (default: 5)")
    parser.add_argument("--figures", default=",".join(FIGURES))
    parser.add_argument("--tuners", default="muster,optuna,ray,syne")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def last_json(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"tune: {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def run_muster(bin_folder, case, trials, folder):
    if case == "process":
        study = folder / "study.toml"
        study.write_text(STUDY.format(trials=trials, noop=bin_folder / "noop_trial"))
        start = time.perf_counter()
        done = subprocess.run([bin_folder / "muster", "tune", study], cwd=folder, capture_output=True, text=True)
        seconds = time.perf_counter() - start  # the whole program, from its exec to its exit
        if done.returncode != 0 or f"{trials} trials: {trials} finished" not in done.stdout + done.stderr:
            sys.exit(f"tune: muster tune ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return {"seconds": seconds, "rss_mib": 0}
    stored = {"persisted": ["--storage", "study.db"], "durable": ["--storage", "study.db", "--durable"]}.get(case, [])
    which = "reports" if stored else case
    return last_json([str(bin_folder / "tune_overhead"), which, "--trials", str(trials), *stored], folder)


def run_side(arguments, tuner, case, trials):
    bin_folder = (ROOT / arguments.build / "bin").resolve()
    with tempfile.TemporaryDirectory() as name:
        if tuner == "muster":
            return run_muster(bin_folder, case, trials, Path(name))
        return last_json([sys.executable, str(HERE / "peer.py"), tuner, case, "--trials", str(trials), "--folder", name,
                          "--noop", str(bin_folder / "noop_trial")], name)


def value_of(result, unit, trials, per_trial):
    if unit == PER_SECOND:
        return trials * per_trial / result["seconds"]
    return result["seconds"] * 1000 / trials if unit == MILLISECONDS else result["rss_mib"] / trials * 100000


def measure(arguments):
    """Figure, side -> values; every side of every figure once per round."""
    values, tuners = {}, arguments.tuners.split(",")
    for turn in range(arguments.rounds):
        for figure in arguments.figures.split(","):
            title, unit, per_trial, sides = FIGURES[figure]
            if figure in ONCE and turn > 0:
                continue
            for side, tuner, case, trials in sides if turn % 2 else reversed(sides):
                if tuner not in tuners:
                    continue
                value = value_of(run_side(arguments, tuner, case, trials), unit, trials, per_trial)
                values.setdefault((figure, side), []).append(value)
                print(f"{turn} {title}: {side}: {value:.4g} {unit}", file=sys.stderr, flush=True)
    return values


def show(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(values):
    lines = ["| figure | tuner | median (least–most) | times ours | trials per run |", "|---" * 5 + "|"]
    for figure, (title, unit, _, sides) in FIGURES.items():
        ours = None
        for side, _, _, trials in sides:
            runs = values.get((figure, side))
            if not runs:
                continue
            median = statistics.median(runs)
            ours = ours or median
            spread = f" ({show(min(runs))}–{show(max(runs))})" if len(runs) > 1 else ""
            # How many times as much of a second, or of memory, one takes.
            times = ours / median if unit == PER_SECOND else median / ours
            lines.append(f"| {title}, {unit} | {side} | {show(median)}{spread} | {times:.3g} | {trials:,} |")
    return "\n".join(lines)


def main():
    arguments = parse_arguments()
    load = load_average("tune")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "muster", "tune_overhead", "noop_trial"],
                   check=True, stdout=sys.stderr)
    values = measure(arguments)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("ray", "optuna", "syne-tune"))
    words = " ".join(["benchmarks/peers/tune/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; {versions}; Python "
            f"{sys.version.split()[0]}; {arguments.rounds} runs of each, taken in turn (memory: one):\n`{words}`\n\n{table(values)}")
    print(text)
    if arguments.write_docs:
        write_docs("tune", text)


if __name__ == "__main__":
    main()
