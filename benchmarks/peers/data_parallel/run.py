"""A training step on two CPU devices: Muster's DataParallel, LibTorch's data_parallel, and one device.

    .venv/bin/python benchmarks/peers/data_parallel/run.py [--turns 9] [--build build] [--write-docs]

Builds one C++ program in which all sides hold the same weights and batches, and lets them step in turn (A B C A B C …), the
order turned by one each turn. A run is refused if the sides' parameters differ afterwards by more than 1e-5 of their sum. The
memory columns come from a counting allocator in a step of their own: bytes of tensors that were made in the step for a device
and live when backward starts (activations, outputs, clones). Python's nn.DataParallel has no row: without CUDA it calls the
module as it is. --write-docs puts the table into docs/benchmarks.md.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from report import load_average, machine, torch_version, write_docs  # noqa: E402

MODELS = {  # title, steps per turn
    "mlp": ("MLP 784-2048-2048-10, batch 64", 4),
    "head": ("MLP 128-128-128-32768, batch 128", 4),
    "cnn": ("CNN, 2 convolutions, batch 128 of 1 x 28 x 28", 4),
}
SIDES = {"muster": "Muster, 2 replicas", "libtorch": "LibTorch, 2 replicas", "one": "one device, both cores"}
REPLICAS = 2


class Process:
    def __init__(self, command):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        self.process = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"data_parallel: the program ended with {self.process.wait()} at {words}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(ask, model, turns):
    """Milliseconds per step and CPU milliseconds per step by side, one number a turn each; bytes by side and device."""
    sides, steps = list(SIDES), MODELS[model][1]
    for side in sides:
        ask("setup", side, model, REPLICAS)
    times, cpu = {side: [] for side in sides}, {side: [] for side in sides}
    for turn in range(turns + 2):
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            answer = ask("step", side, steps)
            if turn >= 2:
                times[side].append(1e3 * answer["seconds"] / steps)
                cpu[side].append(1e3 * answer["cpu_seconds"] / steps)
    sums = {side: ask("sum", side)["sum"] for side in sides}
    for side, value in sums.items():
        if not abs(value - sums["one"]) <= 1e-5 * sums["one"]:
            sys.exit(f"data_parallel: {model}: \"{SIDES[side]}\" ends at {value}, one device at {sums['one']}: "
                     "the sides differ in what they compute")
    memory = {side: ask("memory", side)["bytes"] for side in sides}
    ask("drop")
    return times, cpu, memory


def show(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def rows(model, times, cpu, memory):
    for side, name in SIDES.items():
        ratio = statistics.median(theirs / ours for theirs, ours in zip(times[side], times["muster"]))
        mebibytes = [f"{value / 2**20:.2f}" for value in memory[side]] + ["none"] * (REPLICAS - len(memory[side]))
        balance = f"{max(memory[side]) / min(memory[side]):.2f}" if len(memory[side]) > 1 else "none"
        yield (f"| {MODELS[model][0]} | {name} | {show(times[side])} | {ratio:.2f} | {statistics.median(cpu[side]):.1f} | "
               + " | ".join(mebibytes) + f" | {balance} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="timed turns of each side (default: 9)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("data_parallel")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "data_parallel_step"], check=True, stdout=sys.stderr)
    ask = Process(str(ROOT / arguments.build / "bin" / "data_parallel_step"))
    threads = ask("threads")["threads"]
    if threads < REPLICAS:
        sys.exit(f"data_parallel: {REPLICAS} replicas need as many threads; ATen has {threads}")
    lines = ["| model | side | step, ms | times ours | CPU, ms per step | device 0, MiB | device 1, MiB | fullest / emptiest |",
             "|---|---|---|---|---|---|---|---|"]
    for model in MODELS:
        lines += rows(model, *measure(ask, model, arguments.turns))
        print("\n".join(lines if model == "mlp" else lines[-len(SIDES):]), flush=True)
    ask.close()
    words = " ".join(["benchmarks/peers/data_parallel/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, {threads} threads in all, load average {load:.2f} at the start; LibTorch {torch_version()}, "
            f"float32, SGD with momentum; median (least–most) of {arguments.turns} turns:\n`{words}`\n\n" + "\n".join(lines))
    if arguments.write_docs:
        write_docs("data_parallel", text)


if __name__ == "__main__":
    main()
