"""Pipelines whose stages sleep: how long a step takes beside what its schedule says.

    .venv/bin/python benchmarks/pipeline_bubble/run.py [--build build] [--write-docs]

Builds the program. Each stage sleeps 100 ms in forward and in each half of backward; 8 micro-batches, 2 to 8 ranks. Of two steps the
shortest counts: whatever else runs on the machine makes a step longer; so do sleeps, which end some tenths of a millisecond late. Exit 1
if a bubble is off by more than 1 % of the step, or a step by more than 1 %. --write-docs puts the table into docs/benchmarks.md.
"""

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))
from report import ROOT, load_average, machine, write_docs  # noqa: E402

MILLISECONDS, MICRO_BATCHES, STEPS = 100, 8, 2
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb1p", "zbv")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("pipeline_bubble")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "pipeline_bubble"], check=True, stdout=sys.stderr)
    rows, worst, longest = [], 0, 0
    for schedule in SCHEDULES:
        for ranks in range(2, 9):
            done = subprocess.run([str(ROOT / arguments.build / "bin" / "pipeline_bubble"), schedule,
                                   *map(str, (ranks, MICRO_BATCHES, MILLISECONDS, STEPS))], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            off = found["step"] / found["simulated_step"] - 1
            worst, longest = max(worst, abs(found["bubble"] - found["simulated_bubble"])), max(longest, off)
            rows.append(f"| `{schedule}` | {ranks} | {1e3 * found['simulated_step']:.0f} | {1e3 * found['step']:.1f} | {100 * off:+.2f} % | "
                        f"{100 * found['simulated_bubble']:.1f} % | {100 * found['bubble']:.1f} % |")
            print(rows[-1], file=sys.stderr)
    words = " ".join(["benchmarks/pipeline_bubble/run.py", *sys.argv[1:]])
    text = "\n".join([
        f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; {MICRO_BATCHES} micro-batches, {MILLISECONDS} ms for "
        f"forward and for each half of backward; the shortest of {STEPS} steps. Bubbles differ by {100 * worst:.2f} % of the step at most, steps by {100 * longest:.2f} %.", f"`{words}`", "",
        "| schedule | ranks | step, simulated, ms | measured, ms | difference | bubble, simulated | measured |",
        "|---|---|---|---|---|---|---|", *rows])
    print(text)
    if arguments.write_docs:
        write_docs("pipeline_bubble", text)
    sys.exit(worst > 0.01 or longest > 0.01)


if __name__ == "__main__":
    main()
