#!/usr/bin/env python3
"""What other tools say of the programs of suite A: leak_tools.py BUILD [ITERATIONS]

heaptrack: one process for each program. What is not freed at its end, less that of plain training, is called a leak above 1 KiB per
iteration; that generous rule needs the program without the leak beside it. Valgrind's memcheck: one process for all of them, which asks after
each how many bytes are lost, with the same threshold. Both see the whole process and no scopes; call stacks are left out.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

UNITS = {"B": 1, "K": 1000, "M": 1000 ** 2, "G": 1000 ** 3}


def leaked_bytes(program, number, iterations):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["heaptrack", "-o", f"{folder}/trace", program, str(number), str(iterations)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (trace,) = pathlib.Path(folder).iterdir()
        text = subprocess.run(["heaptrack_print", "-f", str(trace), "-l", "0", "-p", "0", "-a", "0", "-T", "0"],
                              check=True, capture_output=True, text=True).stdout
    number, unit = re.search(r"total memory leaked: ([\d.]+)([BKMG])", text).groups()
    return float(number) * UNITS[unit]


def by_heaptrack(program, names, iterations):
    plain = names.index("control allocator warm-up")
    least = leaked_bytes(program, plain, iterations)
    held = {}
    for name in sorted(names, key=lambda name: ["leak", "control", "fixed"].index(name.split(" ", 1)[0])):
        held[name] = leaked_bytes(program, names.index(name), iterations) - least
        print(f"        {held[name]:12.0f} B {name}", flush=True)
    return held


def by_valgrind(program, iterations):
    done = subprocess.run(["valgrind", "--leak-check=no", "--undef-value-errors=no", "-q", program, "lost", str(iterations)],
                          check=True, capture_output=True, text=True)
    lines = (line.split(" ", 1) for line in done.stdout.splitlines())
    return {name: int(lost) for lost, name in lines}


def tell(tool, bytes_of, iterations):
    said = [name for name, held in bytes_of.items() if held > 1024 * iterations]
    leaks = [name for name in bytes_of if name.startswith("leak ")]
    found = [name for name in said if name.startswith("leak ")]
    alarms = [name for name in said if not name.startswith("leak ")]
    print(f"{tool}: {len(found)} of {len(leaks)} leaks, {len(alarms)} false alarms of {len(bytes_of) - len(leaks)}")
    for name in sorted(set(leaks) - set(found)):
        print(f"    missed: {name}, {bytes_of[name]:.0f} B")
    for name in alarms:
        print(f"    alarm: {name}, {bytes_of[name]:.0f} B", flush=True)


def main(build, iterations="40"):
    program = str(pathlib.Path(build) / "bin/leak_tools")
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split(" ", 1)[1] for line in lines]
    tell("heaptrack", by_heaptrack(program, names, iterations), int(iterations))
    tell("memcheck", by_valgrind(program, iterations), int(iterations))


main(*sys.argv[1:])
