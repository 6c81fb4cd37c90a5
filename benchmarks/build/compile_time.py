#!/usr/bin/env python3
"""Processor time to compile the same sources in two checkouts: what an include costs its user.

    benchmarks/build/compile_time.py OLD NEW [--rounds 5] [--only PART]

OLD and NEW are checkouts with a configured build/. Of each source under examples/ that both have: processor time of the compiler's
front end (-fsyntax-only, without precompiled header and ccache), both sides in turn, medians; a table in Markdown.
"""
import argparse
import json
import pathlib
import statistics

from compiling import compiler_words, processor_seconds

TAKES_A_VALUE = ("-o", "-MF", "-MT", "-MQ", "-include")


def command(entry):
    compiler, *words = compiler_words(entry)
    kept, words = [compiler], iter(words)
    for word in words:
        if word in TAKES_A_VALUE:
            next(words)
        elif word not in ("-c", "-MD", "-Winvalid-pch"):
            kept.append(word)
    return [*kept, "-fsyntax-only"]


def sources(checkout):
    root = pathlib.Path(checkout).resolve()
    entries = json.loads((root / "build/compile_commands.json").read_text())
    found = {pathlib.Path(entry["file"]): entry for entry in entries}
    return {str(path.relative_to(root)): entry for path, entry in found.items() if path.is_relative_to(root / "examples")}


def seconds(entry):
    return processor_seconds(command(entry), entry["directory"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    old, new = sources(asked.old), sources(asked.new)
    print("| source | old, s | new, s | new/old |\n|---|---|---|---|")
    for name in sorted(old.keys() & new.keys()):
        if asked.only not in name:
            continue
        pairs = [(seconds(old[name]), seconds(new[name])) for _ in range(asked.rounds)]
        before, after = (statistics.median(side) for side in zip(*pairs))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"| {name} | {before:.1f} | {after:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
