"""How long from the prompt to the end of the first optimizer step on all ranks: Muster beside Python's DDP.

    .venv/bin/python benchmarks/peers/first_step/run.py [--pairs 9] [--build build] [--write-docs]

Builds our side, runs the sides in turn (A B C A B C …), each once untimed first, and prints a Markdown table;
--write-docs puts it into docs/benchmarks.md. "Prompt" is the moment before the launcher's exec. Each rank notes CLOCK_MONOTONIC after its first
optimizer step; the latest rank counts. A run is refused if the sides' first losses differ: they must do the same work.
"""

import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from report import load_average, machine, seconds_text, torch_version, write_docs  # noqa: E402

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
OURS, PYTHON, MIXED = "muster run, C++", "torchrun, Python", "muster run, Python"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9, help="timed runs of each side (default: 9)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--require", type=float, default=0, metavar="X",
                        help="exit 1 if data in memory is not at least X times sooner than torchrun")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--phases", action="store_true", help="also print where each side's time goes")
    return parser.parse_args()


def sides(arguments, data):
    program = str(ROOT / arguments.build / "bin" / "first_step")
    muster = str(ROOT / arguments.build / "bin" / "muster")
    python = sys.executable
    torchrun = str(Path(python).parent / "torchrun")
    for needed in (program, muster, torchrun):
        if not os.access(needed, os.X_OK):
            sys.exit(f"first_step: {needed} is not there\nhint: run `make bench`, which builds and sets up what this needs")
    peer = str(HERE / "peer.py")
    ranks = ["--nproc-per-node", str(arguments.ranks)]
    return {
        OURS: [muster, "run", *ranks, "--", program, *data],
        PYTHON: [torchrun, *ranks, peer, *data],
        MIXED: [muster, "run", *ranks, "--", python, peer, *data],
    }


def run_once(command, ranks):
    with tempfile.TemporaryDirectory() as out:
        environment = os.environ | {"FIRST_STEP_OUT": out}
        environment.pop("OMP_NUM_THREADS", None)
        used_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        prompt = time.monotonic()
        process = subprocess.run(command, env=environment, cwd=out, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ended = time.monotonic()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode != 0:
            sys.exit(f"first_step: {' '.join(command)} ended with {process.returncode}:\n{process.stdout}")
        notes = [json.loads(Path(out, f"rank{rank}.json").read_text()) for rank in range(ranks)]
    phases = {name: max(note[name] for note in notes) - prompt for name in notes[0] if name != "loss"}
    return {"first_step": max(note["stepped"] for note in notes) - prompt, "end": ended - prompt,
            "cpu": used.ru_utime + used.ru_stime - used_before.ru_utime - used_before.ru_stime,
            "losses": [note["loss"] for note in notes], "phases": phases}


def measure(commands, pairs, ranks):
    results = {name: [] for name in commands}
    for turn in range(pairs + 1):
        for name, command in commands.items():
            result = run_once(command, ranks)
            first = results[OURS][0] if results[OURS] else result
            for ours, theirs in zip(first["losses"], result["losses"]):
                if abs(ours - theirs) > 1e-5:
                    sys.exit(f"first_step: first loss {theirs} of \"{name}\" is not {ours}: the sides differ in what they compute")
            if turn > 0:  # the first turn fills the page cache
                results[name].append(result)
            elif name == OURS:
                results[OURS].append(result)
    results[OURS].pop(0)
    return results


def table(title, results):
    ours = statistics.median(r["first_step"] for r in results[OURS])
    lines = [f"| {title} | first step, s | all ranks ended, s | CPU, s | first step, times ours |", "|---|---|---|---|---|"]
    for name, runs in results.items():
        ratio = statistics.median(r["first_step"] for r in runs) / ours
        lines.append(f"| {name} | {seconds_text([r['first_step'] for r in runs])} | {seconds_text([r['end'] for r in runs])} "
                     f"| {seconds_text([r['cpu'] for r in runs])} | {ratio:.1f} |")
    return "\n".join(lines)


def phase_table(results):
    lines = ["| until, s after the prompt | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    names = max((runs[0]["phases"] for runs in results.values()), key=len)
    for phase in names:
        cells = [f"{statistics.median(r['phases'][phase] for r in runs):.3f}" if phase in runs[0]["phases"] else ""
                 for runs in results.values()]
        lines.append(f"| {phase} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    arguments = parse_arguments()
    load = load_average("first_step")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "first_step", "muster"], check=True,
                   stdout=sys.stderr)
    tables, phases, ratios = [], [], []
    variants = {"data in memory": ["memory"], "Fashion-MNIST from its gz files": ["fashion-mnist", FASHION_MNIST]}
    if not Path(FASHION_MNIST).is_dir():
        sys.exit(f"first_step: {FASHION_MNIST} is not there\nhint: install Debian's dataset-fashion-mnist")
    for title, data in variants.items():
        results = measure(sides(arguments, data), arguments.pairs, arguments.ranks)
        tables.append(table(title, results))
        phases.append(phase_table(results))
        ratios.append(statistics.median(r["first_step"] for r in results[PYTHON]) /
                      statistics.median(r["first_step"] for r in results[OURS]))
    if arguments.phases:
        tables += phases
    words = " ".join(["benchmarks/peers/first_step/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on both "
            f"sides, {arguments.ranks} ranks, median (least–most) of {arguments.pairs} runs each, taken in turn:\n"
            f"`{words}`\n\n" + "\n\n".join(tables))
    print(text)
    if arguments.write_docs:
        write_docs("first_step", text)
    if ratios[0] < arguments.require:
        sys.exit(f"first_step: {ratios[0]:.1f} times sooner than torchrun, and {arguments.require:g} are required")


if __name__ == "__main__":
    main()
