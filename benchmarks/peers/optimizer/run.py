"""One optimizer step: Muster beside torch.optim (single-tensor, foreach, fused) and LibTorch's own torch::optim.

    .venv/bin/python benchmarks/peers/optimizer/run.py [--turns 11] [--threads N] [--cpu-time] [--build build] [--write-docs]

Builds our side and starts one C++ and one Python process. For each list of parameters and each optimizer all sides hold the
same parameters and gradients, and step in turn (A B C D E A B …), some steps a turn, two turns untimed first; the order is turned
by one each turn, so that nobody always follows the same neighbour. A run is refused if the sides' parameters differ afterwards
by more than 1e-5 of their sum: they must do the same work. --write-docs puts the table into docs/benchmarks.md.

On a machine that others use, wall time says little (a thread that waits for its turn holds up all others at the end of every kernel):
--threads 1 --cpu-time compares the CPU time of one thread instead.
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
HERE = Path(__file__).resolve().parent
from report import load_average, machine, torch_version, write_docs  # noqa: E402

LISTS = {  # title, steps per turn
    "mlp": ("MLP 784-2048-2048-10: 6 tensors, 5.8 million numbers", 4),
    "resnet18": ("ResNet-18: 62 tensors, 11.7 million numbers", 3),
    "tiny": ("1,000 tensors of 16 or 64 numbers", 5),
}
OPTIMIZERS = {"sgd": "SGD, momentum 0.9", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop"}
SIDES = {"muster": "Muster", "single": "Python, default", "foreach": "Python, foreach", "fused": "Python, fused",
         "libtorch": "torch::optim"}


class Process:
    def __init__(self, threads, *command):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        if threads:
            environment["OMP_NUM_THREADS"] = str(threads)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"optimizer: {self.process.args} ended with {self.process.wait()} at {words}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(asks, optimizer, list_name, turns, clock):
    """Milliseconds per step, by side, one number a turn."""
    sides = [side for side in SIDES if not (side == "fused" and optimizer == "rmsprop")]
    for side in sides:
        asks[side]("setup", side, optimizer, list_name)
    steps = LISTS[list_name][1]
    times = {side: [] for side in sides}
    for turn in range(turns + 2):
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            seconds = asks[side]("step", side, steps)[clock]
            if turn >= 2:
                times[side].append(1e3 * seconds / steps)
    sums = {side: asks[side]("sum", side)["sum"] for side in sides}
    for side, value in sums.items():
        if not abs(value - sums["muster"]) <= 1e-5 * sums["muster"]:
            sys.exit(f"optimizer: {optimizer} on {list_name}: \"{SIDES[side]}\" ends at {value}, ours at {sums['muster']}: "
                     "the sides differ in what they compute")
    for ask in set(asks.values()):
        ask("drop")
    return times


def show(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def ratio(times, sides):
    """How many times ours the fastest of `sides` takes: the median over the turns."""
    present = [side for side in sides if side in times]
    best = min(present, key=lambda side: statistics.median(times[side]))
    return statistics.median(theirs / ours for theirs, ours in zip(times[best], times["muster"]))


def table(title, results):
    lines = [f"| {title} | " + " | ".join(f"{name}, ms" for name in SIDES.values())
             + " | Python's default, times ours | Python's fastest, times ours | torch::optim, times ours |",
             "|---|" + "---|" * (len(SIDES) + 3)]
    for optimizer, times in results.items():
        cells = [show(times[side]) if side in times else "none" for side in SIDES]
        cells += [f"{ratio(times, ['single']):.2f}", f"{ratio(times, ['single', 'foreach', 'fused']):.2f}",
                  f"{ratio(times, ['libtorch']):.2f}"]
        lines.append(f"| {OPTIMIZERS[optimizer]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each side (default: 11)")
    parser.add_argument("--threads", type=int, default=0, help="of each process (default: ATen's own choice)")
    parser.add_argument("--cpu-time", action="store_true", help="compare CPU time of all threads, not wall time")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("optimizer")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "optimizer_step"], check=True, stdout=sys.stderr)
    ours = Process(arguments.threads, str(ROOT / arguments.build / "bin" / "optimizer_step"))
    python = Process(arguments.threads, sys.executable, str(HERE / "peer.py"))
    asks = {side: ours if side in ("muster", "libtorch") else python for side in SIDES}
    threads = {process("threads")["threads"] for process in (ours, python)}
    if len(threads) != 1:
        sys.exit(f"optimizer: the processes have different numbers of threads: {sorted(threads)}")
    tables = []
    clock = "cpu_seconds" if arguments.cpu_time else "seconds"
    for list_name, (title, _) in LISTS.items():
        results = {optimizer: measure(asks, optimizer, list_name, arguments.turns, clock) for optimizer in OPTIMIZERS}
        tables.append(table(title, results))
        print(tables[-1], flush=True)
    for process in (ours, python):
        process.close()
    words = " ".join(["benchmarks/peers/optimizer/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, {threads.pop()} thread(s), load average {load:.2f} at the start; PyTorch {torch_version()} "
            f"on all sides, float32; milliseconds of {'CPU time' if arguments.cpu_time else 'wall time'} per step, median (least–most) of {arguments.turns} turns:\n`{words}`\n\n"
            + "\n\n".join(tables))
    if arguments.write_docs:
        write_docs("optimizer", text)


if __name__ == "__main__":
    main()
