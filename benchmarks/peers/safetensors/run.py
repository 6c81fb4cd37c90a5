"""Writing and reading a safetensors file: Muster beside PyPI's `safetensors`.

    .venv/bin/python benchmarks/peers/safetensors/run.py [--pairs 9] [--megabytes 500] [--build build] [--write-docs]

Builds our side, runs the sides in turn, each in a process of its own and once untimed first, and prints a Markdown table;
--write-docs puts it into docs/benchmarks.md. A run is refused if the sides' sums differ.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from report import load_average, machine, write_docs  # noqa: E402

ROWS = ["write", "write, synced", "open", "open and sum", "read to own memory"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9, help="timed runs of each side (default: 9)")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def run_once(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"safetensors: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(commands, pairs):
    results = {name: [] for name in commands}
    for turn in range(pairs + 1):
        for name, command in commands.items():
            result = run_once(command)
            results[name] += [result] if turn > 0 else []
    if len({run["sum"] for runs in results.values() for run in runs}) != 1:
        sys.exit("safetensors: the sides read different numbers")
    return results


def show(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def table(results):
    ours, theirs = results.values()
    lines = ["| seconds | Muster | PyPI safetensors | theirs / ours |", "|---|---|---|---|"]
    for row in ROWS:
        mine, other = [run[row] for run in ours], [run[row] for run in theirs]
        lines.append(f"| {row} | {show(mine)} | {show(other)} | {statistics.median(other) / statistics.median(mine):.2f} |")
    mine, other = ([run["peak_kib"] / 1024 for run in runs] for runs in (ours, theirs))
    lines.append(f"| peak memory of the process, MiB | {statistics.median(mine):.0f} | {statistics.median(other):.0f} | "
                 f"{statistics.median(other) / statistics.median(mine):.2f} |")
    return "\n".join(lines)


def main():
    arguments = parse_arguments()
    load = load_average("safetensors")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "safetensors_io"], check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory(dir=ROOT / arguments.build) as folder:
        words = [f"{folder}/x.safetensors", str(arguments.megabytes)]
        results = measure({"ours": [str(ROOT / arguments.build / "bin" / "safetensors_io"), *words],
                           "theirs": [sys.executable, str(HERE / "peer.py"), *words]}, arguments.pairs)
    command = " ".join(["benchmarks/peers/safetensors/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; {arguments.megabytes} MB of float32, one "
            f"thread, median (least–most) of {arguments.pairs} runs each, taken in turn:\n`{command}`\n\n{table(results)}")
    print(text)
    if arguments.write_docs:
        write_docs("safetensors", text)


if __name__ == "__main__":
    main()
