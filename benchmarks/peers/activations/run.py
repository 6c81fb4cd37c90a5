"""Activation checkpointing: Muster's checkpointed() beside Python's torch.utils.checkpoint, time and memory of a training step.

    .venv/bin/python benchmarks/peers/activations/run.py [--turns 5] [--build build] [--write-docs]

Builds our side. Each turn starts each side once with and once without checkpoints, in turn; a side makes steps of the same encoder layers
with the same weights. The first step is not timed. A run is refused if losses differ by more than 1e-4 between the sides, or at all between
with and without on one side. Memory is the process's peak above what it had before the first step. --write-docs puts the table
into docs/benchmarks.md.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from report import ROOT, load_average, machine, torch_version, write_docs  # noqa: E402

LAYERS, WIDTH, BATCH, TOKENS, STEPS = 8, 128, 32, 128, 6
SIDES = {"muster": "Muster", "python": "Python"}


def once(command, rule):
    done = subprocess.run([*command, rule, *map(str, (LAYERS, WIDTH, BATCH, TOKENS, STEPS))], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return {"ms": 1e3 * statistics.median(answer["seconds"][1:]), "mib": answer["peak_mib"], "loss": answer["loss"],
            "threads": answer["threads"]}


def check(found):
    losses = {side: {run["loss"] for rule in ("off", "blocks") for run in found[side, rule]} for side in SIDES}
    for side, values in losses.items():
        if len(values) != 1:
            sys.exit(f"activations: {SIDES[side]} has other losses with checkpoints than without: {sorted(values)}")
    ours, theirs = min(losses["muster"]), min(losses["python"])
    if abs(ours - theirs) > 1e-4 * abs(theirs):
        sys.exit(f"activations: the loss is {ours} here and {theirs} in Python: the sides differ in what they compute")
    threads = {run["threads"] for runs in found.values() for run in runs}
    if len(threads) != 1:
        sys.exit(f"activations: the sides have different numbers of threads: {sorted(threads)}")
    return threads.pop()


def row(name, off, blocks):
    def median(runs, key):
        return statistics.median(run[key] for run in runs)

    return (f"| {name} | {median(off, 'ms'):.0f} | {median(blocks, 'ms'):.0f} | {median(blocks, 'ms') / median(off, 'ms'):.2f} | "
            f"{median(off, 'mib'):.0f} | {median(blocks, 'mib'):.0f} | {median(blocks, 'mib') / median(off, 'mib'):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="processes of each kind (default: 5)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("activations")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "activations_step"], check=True, stdout=sys.stderr)
    commands = {"muster": [str(ROOT / arguments.build / "bin" / "activations_step")], "python": [sys.executable, str(HERE / "peer.py")]}
    found = {(side, rule): [] for side in SIDES for rule in ("off", "blocks")}
    for _ in range(arguments.turns):
        for side, rule in found:
            found[side, rule].append(once(commands[side], rule))
    threads = check(found)
    words = " ".join(["benchmarks/peers/activations/run.py", *sys.argv[1:]])
    text = "\n".join([
        f"{datetime.date.today()}, {machine()}, {threads} thread(s), load average {load:.2f} at the start; PyTorch {torch_version()} on both "
        f"sides, {LAYERS} encoder layers of width {WIDTH}, batch {BATCH} of {TOKENS} tokens, float32; medians of {arguments.turns} processes:",
        f"`{words}`", "",
        "| | step, ms | checkpointed, ms | ratio | peak, MiB | checkpointed, MiB | ratio |", "|---|---|---|---|---|---|---|",
        *(row(name, found[side, "off"], found[side, "blocks"]) for side, name in SIDES.items())])
    print(text)
    if arguments.write_docs:
        write_docs("activations", text)


if __name__ == "__main__":
    main()
