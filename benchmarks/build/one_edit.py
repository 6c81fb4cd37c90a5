#!/usr/bin/env python3
"""What it costs to see an edit: processor time to compile one source of each area, and to link the programs.

    benchmarks/build/one_edit.py [--worst 5] [--only PART]

In the dev preset, which compiles each source by itself: the longest source of each folder of muster/ and cli/, without a compiler
cache. Linking is that of build/, which has its libraries already. A table in Markdown of those that cost most.
"""
import argparse
import collections
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from compiling import compiler_words, processor_seconds

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEV, RELEASE = ROOT / "build-dev", ROOT / "build"


def ninja(build, *words):
    return subprocess.run(["ninja", "-C", build, *words], check=True, capture_output=True, text=True).stdout


def configured():
    """Whatever a source needs before it can be compiled alone."""
    subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    outputs = [line.split(":")[0] for line in ninja(DEV, "-t", "targets", "all").splitlines()]
    needed = [output for output in outputs if output.endswith((".gch", ".pch", ".pb.h", "_table.cpp")) and "test_pch" not in output]
    ninja(DEV, *needed)
    return json.loads((DEV / "compile_commands.json").read_text())


def longest_sources(entries):
    """folder -> (lines, source, command), of those that are written by hand"""
    longest = {}
    for entry in entries:
        source = pathlib.Path(entry["file"])
        if not source.is_relative_to(ROOT) or source.relative_to(ROOT).parts[0] not in ("muster", "cli"):
            continue
        lines = len(source.read_text().splitlines())
        folder = source.parent.relative_to(ROOT).as_posix()
        if lines > longest.get(folder, (0,))[0]:
            longest[folder] = (lines, source.relative_to(ROOT).as_posix(), entry)
    return longest


def compiled(entry):
    words = compiler_words(entry)
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        for flag in ("-o", "-MT"):
            if flag in words:
                words[words.index(flag) + 1] = made.name
        if "-MF" in words:
            words[words.index("-MF") + 1] = os.devnull
        return processor_seconds(words, entry["directory"])


def linked():
    """Both programs, one after the other."""
    total = 0
    for program in ("bin/muster", "bin/muster-torch"):
        last = ninja(RELEASE, "-t", "commands", program).splitlines()[-1]
        with tempfile.TemporaryDirectory() as folder:
            words = shlex.split(last.split("&&")[1])
            words[words.index("-o") + 1] = f"{folder}/program"
            total += processor_seconds(words, RELEASE)
    return total


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--worst", type=int, default=5)
    arguments.add_argument("--only", default="", help="folders whose name has this")
    asked = arguments.parse_args()
    linking = linked()
    times = collections.Counter()
    sources = {folder: found for folder, found in longest_sources(configured()).items() if asked.only in folder}
    for folder, (_, _, entry) in sorted(sources.items()):
        times[folder] = compiled(entry)
        print(f"{folder}: {times[folder]:.1f} s", file=sys.stderr)
    print(f"{len(times)} folders; linking {linking:.1f} s; above 20 s with linking: "
          f"{sum(time + linking > 20 for time in times.values())}\n")
    print("| source | lines | compiled, s | with linking, s |\n|---|---|---|---|")
    for folder, time in times.most_common(asked.worst):
        lines, source, _ = sources[folder]
        print(f"| {source} | {lines} | {time:.1f} | {time + linking:.1f} |")


if __name__ == "__main__":
    main()
