#!/usr/bin/env python3
"""What recording memory costs a step: run.py BUILD

Interleaved rounds with medians, then instructions per step as valgrind's callgrind counts them, which other programs on the machine do
not change. "bare" is a process without our allocator, "off" one whose allocator stands in front and records nothing.
"""
import pathlib
import re
import subprocess
import sys

LEVELS = ["bare", "off", "L0", "L1", "L1-each", "L2", "leaks"]


def instructions(program, net, level, steps):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_step*",
                           program, net, level, str(steps)], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{net} {level}: no count\n{done.stderr[-2000:]}")
    return int(found.group(1)) / steps


def main(build):
    program = str(pathlib.Path(build) / "bin/memory_overhead")
    subprocess.run([program], check=True)
    print("instructions per step, and over bare")
    for net, steps in [("mlp", 40), ("cnn", 2)]:
        bare = None
        for level in LEVELS:
            count = instructions(program, net, level, steps)
            bare = bare or count
            print(f"{net:4} {level:6} {count:14,.0f} {100 * (count / bare - 1):+7.2f} %", flush=True)


main(*sys.argv[1:])
