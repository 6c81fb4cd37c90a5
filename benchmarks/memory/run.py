#!/usr/bin/env python3
"""What recording memory costs a step: run.py BUILD [--callgrind]

Interleaved rounds with medians, then instructions per step (user space, `perf stat`, or valgrind's callgrind where perf may not
count), which other programs on the machine do not change: the difference of a long and a short run, so that the start is not in it.
"""
import pathlib
import re
import subprocess
import sys

LEVELS = ["bare", "off", "L0", "L1", "L2", "leaks"]


def perf_counts(command):
    done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", *command], capture_output=True, text=True)
    found = re.search(r"^(\d+),,instructions", done.stderr, re.M)
    return int(found.group(1)) if found else None


def callgrind_counts(command):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], capture_output=True, text=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def main(build, *flags):
    program = str(pathlib.Path(build) / "bin/memory_overhead")
    subprocess.run([program], check=True)
    count = perf_counts
    if "--callgrind" in flags or perf_counts([program, "mlp", "bare", "1"]) is None:
        count = callgrind_counts
    print(f"instructions per step ({count.__name__.removesuffix('_counts')}), and over bare")
    for net, short, long in [("mlp", 10, 110), ("cnn", 2, 12)]:
        bare = None
        for level in LEVELS:
            few, many = (count([program, net, level, str(steps)]) for steps in (short, long))
            per_step = (many - few) / (long - short)
            bare = bare or per_step
            print(f"{net:4} {level:6} {per_step:14,.0f} {100 * (per_step / bare - 1):+7.2f} %")


main(*sys.argv[1:])
