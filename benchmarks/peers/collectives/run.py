"""All-reduce between processes of one machine: Muster's shm and gloo beside Python's torch.distributed over gloo.

    .venv/bin/python benchmarks/peers/collectives/run.py [--turns 11] [--ranks 2 4] [--max-bytes N] [--build build] [--write-docs]

Builds our side and starts, for each number of ranks, one group of processes per side, which live through all sizes. The sides
all-reduce float32 tensors in turn (A B C A B C …), the order turned by one each turn; two turns go untimed first. A run is
refused if a side's sum is wrong. Wall time is the slowest rank's, CPU time that of all ranks' processes together, both per
operation. Sides that wait their turn sleep. --write-docs puts the table into docs/benchmarks.md.
"""

import argparse
import datetime
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from rank_group import RankGroup  # noqa: E402
from report import load_average, machine, torch_version, write_docs  # noqa: E402

SIDES = {"shm": "Muster, shm", "gloo": "Muster, gloo", "python": "Python, gloo"}
SIZES = [1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 26_000_000, 64 << 20]
BUDGET_BYTES = 64 << 20  # of one turn
MAX_COUNT = 200


def measure(groups, ranks, size, turns):
    """{side: [(wall, cpu) seconds per operation, a pair a turn]}"""
    expected = size // 4 * ranks * (ranks + 1) / 2
    for side, group in groups.items():
        if group("check", size)["sum"] != expected:
            sys.exit(f"collectives: {SIDES[side]} sums {size} bytes wrongly")
    count = max(1, min(MAX_COUNT, BUDGET_BYTES // size))
    times = {side: [] for side in groups}
    sides = list(groups)
    for turn in range(turns + 2):
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            answer = groups[side]("reduce", size, count)
            if turn >= 2:
                times[side].append((answer["seconds"] / count, answer["cpu_seconds"] / count))
    return times


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size / 1e6:.0f} MB"


def show(values):
    scaled = [1e3 * value for value in values]
    digits = 3 if statistics.median(scaled) < 1 else 2
    return f"{statistics.median(scaled):.{digits}f} ({min(scaled):.{digits}f}–{max(scaled):.{digits}f})"


def row(size, times):
    wall = {side: [pair[0] for pair in pairs] for side, pairs in times.items()}
    cpu = {side: [pair[1] for pair in pairs] for side, pairs in times.items()}
    ratio = {side: statistics.median(theirs / ours for theirs, ours in zip(wall[side], wall["shm"])) for side in ("gloo", "python")}
    spent = statistics.median(theirs / ours for theirs, ours in zip(cpu["gloo"], cpu["shm"]))
    return ([size_text(size)] + [show(wall[side]) for side in SIDES] + [f"{ratio['gloo']:.1f}", f"{ratio['python']:.1f}"]
            + [show(cpu[side]) for side in ("shm", "gloo")] + [f"{spent:.1f}"])


def table(ranks, sizes, turns, program):
    commands = {side: [sys.executable, str(HERE / "peer.py")] if side == "python" else [str(program), side] for side in SIDES}
    groups = {side: RankGroup(name, commands[side], ranks) for side, name in SIDES.items()}
    lines = [f"| {ranks} ranks | " + " | ".join(f"{name}, ms" for name in SIDES.values())
             + " | our gloo, times shm | Python, times shm | CPU of all ranks: shm, ms | our gloo, ms | our gloo, times shm |", "|---|" + "---|" * 8]
    for size in sizes:
        lines.append("| " + " | ".join(row(size, measure(groups, ranks, size, turns))) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    for group in groups.values():
        group.close()
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each side (default: 11)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="numbers of ranks (default: 2 4)")
    parser.add_argument("--max-bytes", type=int, default=SIZES[-1], help="leave larger tensors out")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("collectives")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "collectives"], check=True, stdout=sys.stderr)
    program = ROOT / arguments.build / "bin" / "collectives"
    sizes = [size for size in SIZES if size <= arguments.max_bytes]
    tables = [table(ranks, sizes, arguments.turns, program) for ranks in arguments.ranks]
    words = " ".join(["benchmarks/peers/collectives/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on all sides, float32 sums; "
            f"milliseconds per all-reduce, median (least–most) of {arguments.turns} turns:\n`{words}`\n\n" + "\n\n".join(tables))
    print(text)
    if arguments.write_docs:
        write_docs("collectives", text)


if __name__ == "__main__":
    main()
