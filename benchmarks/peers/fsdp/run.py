"""Weights in shards: Muster's stage 3 (fsdp) beside PyTorch's fully_shard (FSDP2), a training step's time and memory on 2 ranks.

    .venv/bin/python benchmarks/peers/fsdp/run.py [--turns 11] [--sizes wide …] [--build build] [--write-docs]

Beside both stand the same sides' DistributedDataParallel, which has all on every rank, and our stage 2. Builds our side and starts a
group of processes per side and model; they step in turn (A B C … B C A …), two turns untimed. Sides that wait their turn sleep. Encoder
layers with AdamW, a layer per unit; the same weights on all sides, another batch on each rank. The run is refused if a loss after
the first steps differs by more than 1e-4 from that of the first side. Memory is the most that a rank's process ever had
above what it had before the model was made: the wrap of a whole model and its first step are in it.
"""

import argparse
import datetime
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from rank_group import RankGroup  # noqa: E402
from report import ROOT, load_average, machine, torch_version, write_docs  # noqa: E402

RANKS = 2
CHECK_STEPS = 5
SIZES = {  # layers, width, samples per rank, tokens; steps per turn
    "wide": ("6 layers of width 512, 4 x 32 tokens", (6, 512, 4, 32), 2),
    "deep": ("24 layers of width 128, 8 x 64 tokens", (24, 128, 8, 64), 2),
    "long": ("6 layers of width 256, 8 x 128 tokens", (6, 256, 8, 128), 2),
}
SIDES = {  # title, and our program's words or the peer's
    "ddp": ("`ddp`, shm", ("shm", "ddp")),
    "zero2": ("`zero2`, shm", ("shm", "zero2")),
    "fsdp": ("`fsdp`, shm", ("shm", "fsdp")),
    "fsdp_gloo": ("`fsdp`, gloo", ("gloo", "fsdp")),
    "python_ddp": ("Python DDP, gloo", None),
    "python": ("Python FSDP2, gloo", None),
}


def command_of(side, program):
    words = SIDES[side][1]
    if words is not None:
        return [str(program), *words]
    return [sys.executable, str(HERE / "peer.py"), "ddp" if side == "python_ddp" else "fsdp"]


def measure(size, program, turns):
    """{side: [milliseconds of a step]}, {side: MiB}"""
    _, sizes, count = SIZES[size]
    groups = {side: RankGroup(SIDES[side][0], command_of(side, program), RANKS) for side in SIDES}
    losses = {}
    for side, group in groups.items():
        group("setup", *sizes)
        losses[side] = group("step", CHECK_STEPS)["loss"]
        if abs(losses[side] - losses["ddp"]) > 1e-4 * abs(losses["ddp"]):
            sys.exit(f"fsdp: {size}: losses differ: {losses}")
    names, times = list(SIDES), {side: [] for side in SIDES}
    for turn in range(turns + 2):
        at = turn % len(names)
        for side in names[at:] + names[:at]:
            answer = groups[side]("step", count)
            if turn >= 2:
                times[side].append(1e3 * answer["seconds"] / count)
    memory = {side: group("memory")["peak_mib"] for side, group in groups.items()}
    for group in groups.values():
        group.close()
    return times, memory


def parameters_mib(size):
    layers, width, _, _ = SIZES[size][1]
    return layers * (12 * width * width + 13 * width) * 4 / 2**20


def rows(size, times, memory):
    for side, (title, _) in SIDES.items():
        ratio = statistics.median(a / b for a, b in zip(times[side], times["fsdp"]))
        yield (f"| {SIZES[size][0]} | {title} | {statistics.median(times[side]):.1f} ({min(times[side]):.1f}–{max(times[side]):.1f}) | "
               f"{ratio:.2f} | {memory[side]:.0f} | {memory[side] / parameters_mib(size):.1f} |")


HEAD = "| model | side | step, ms | times `fsdp`, shm | peak, MiB | in copies of the weights |\n|---|---|---|---|---|---|"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each side (default: 11)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="default: all")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("fsdp")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "fsdp_step"], check=True, stdout=sys.stderr)
    lines = []
    for size in arguments.sizes:
        lines += rows(size, *measure(size, ROOT / arguments.build / "bin" / "fsdp_step", arguments.turns))
        print("\n".join(lines[-len(SIDES):]), file=sys.stderr, flush=True)
    words = " ".join(["benchmarks/peers/fsdp/run.py", *sys.argv[1:]])
    text = "\n".join([
        f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on all sides, {RANKS} ranks "
        f"of one thread, float32, AdamW; milliseconds per step, median (least–most) of {arguments.turns} turns:",
        f"`{words}`", "", HEAD, *lines])
    print(text)
    if arguments.write_docs:
        write_docs("fsdp", text)


if __name__ == "__main__":
    main()
