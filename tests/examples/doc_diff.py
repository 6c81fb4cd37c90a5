#!/usr/bin/env python3
"""The diff in docs/first-training-program.md is the diff of the two example programs, and is under 15 lines.

    doc_diff.py           checks
    doc_diff.py --write   writes the diff into the page
Top comments are left out. Counted are the lines that start with + or -.
"""
import difflib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/first-training-program.md"
OPEN, CLOSE = "```diff\n", "```\n"
LIMIT = 15


def code(name):
    lines = (ROOT / "examples/first_training_program" / name).read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    return lines[first:]


def make_diff():
    lines = difflib.unified_diff(code("one_device.cpp"), code("two_ranks.cpp"), lineterm="", n=1)
    # File names and line numbers would change with every edit elsewhere.
    return ["…" if line.startswith("@@") else line for line in list(lines)[2:]][1:]


def main():
    diff = make_diff()
    changed = sum(line[0] in "+-" for line in diff)
    page = PAGE.read_text()
    before, _, rest = page.partition(OPEN)
    shown, _, after = rest.partition(CLOSE)
    if "--write" in sys.argv:
        PAGE.write_text(before + OPEN + "\n".join(diff) + "\n" + CLOSE + after)
    elif shown.splitlines() != diff:
        sys.exit(f"{PAGE} does not show the diff of the two programs\nhint: tests/examples/doc_diff.py --write")
    if changed >= LIMIT:
        sys.exit(f"{changed} lines are changed; the promise is under {LIMIT}")
    print(f"{changed} lines are changed")


main()
