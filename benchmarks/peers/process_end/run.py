#!/usr/bin/env python3
"""What a process that loads LibTorch costs when it has nothing to do: start and end, ours and Python's.

    .venv/bin/python benchmarks/peers/process_end/run.py [--pairs 15] [--write-docs]

`muster list models` starts LibTorch for a table of it. With a preloaded library (any: LD_PRELOAD is what end_process() looks at) it
ends as a C++ program usually does, by std::exit and all destructors. Python imports torch and ends. In turn; medians.
"""
import argparse
import datetime
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from report import ROOT, load_average, machine, seconds_text, torch_version, write_docs  # noqa: E402

OURS, BY_EXIT, PYTHON = "`muster list models`", "the same, by std::exit", "`python -c 'import torch'`"


def run_once(command, variables):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, env=os.environ | variables, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--build", default="build")
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    load = load_average("process_end")
    for loader in ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
        os.environ.pop(loader, None)
    ours = [str(ROOT / arguments.build / "bin" / "muster"), "list", "models"]
    sides = {OURS: (ours, {}), BY_EXIT: (ours, {"LD_PRELOAD": "libm.so.6"}), PYTHON: ([sys.executable, "-c", "import torch"], {})}
    runs = {name: [] for name in sides}
    for turn in range(arguments.pairs + 1):
        for name, side in sides.items():
            run = run_once(*side)
            if turn > 0:  # the first turn fills the page cache
                runs[name].append(run)
    least = statistics.median(seconds for seconds, _ in runs[OURS])
    lines = ["| from start to end | s | CPU, s | times ours |", "|---|---|---|---|"]
    for name, of in runs.items():
        seconds, used = zip(*of)
        lines.append(f"| {name} | {seconds_text(seconds)} | {seconds_text(used)} | {statistics.median(seconds) / least:.2f} |")
    words = " ".join(["benchmarks/peers/process_end/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on both sides, "
            f"median (least–most) of {arguments.pairs} runs each, taken in turn:\n`{words}`\n\n" + "\n".join(lines))
    print(text)
    if arguments.write_docs:
        write_docs("process_end", text)


if __name__ == "__main__":
    main()
