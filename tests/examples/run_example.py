#!/usr/bin/env python3
"""Runs an example and compares what it prints with the expected output in its own top comment.

    run_example.py SOURCE OUTPUT -- COMMAND ...

Text must be equal, numbers within 3 percent: another CPU rounds otherwise. stdout is kept in OUTPUT.
"""
import math
import pathlib
import re
import subprocess
import sys

NUMBER = re.compile(r"-?\d+\.\d+")


def expected_lines(source):
    lines = iter(pathlib.Path(source).read_text().splitlines())
    for line in lines:
        if line.startswith("// Expected output"):
            break
    else:
        sys.exit(f"{source}: no '// Expected output' in its top comment")
    expected = []
    for line in lines:
        if not line.startswith("//     "):
            break
        expected.append(line.removeprefix("//     "))
    return expected


def same(expected, actual):
    if NUMBER.sub("#", expected) != NUMBER.sub("#", actual):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(actual))
    return all(math.isclose(float(a), float(b), rel_tol=0.03) for a, b in pairs)


def main(source, output, dashes, *command):
    assert dashes == "--", __doc__
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    pathlib.Path(output).write_text(run.stdout)
    sys.stdout.write(run.stdout)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}")
    expected, actual = expected_lines(source), run.stdout.splitlines()
    if len(expected) != len(actual) or not all(map(same, expected, actual)):
        sys.exit(f"{source} promises:\n" + "\n".join(expected))


if __name__ == "__main__":
    main(*sys.argv[1:])
