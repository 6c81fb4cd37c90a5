#!/usr/bin/env python3
"""Reads each source of the build by itself, and each public header: what forgets an include compiles behind one that has it, as the
sources of an area do together. Clang's front end alone, with precompiled headers of LibTorch, takes a third of g++'s time.

    scripts/plain.py [PATTERN…]     all compile commands of build-plain (`make plain`), or those whose file has a pattern in its path

Prints what is wrong, then how many were read. Exit 1 if any source does not compile.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build-plain"
JOBS = int(os.environ.get("JOBS", os.cpu_count()))


def make_what_sources_need():
    """Precompiled headers, and sources and headers that the build writes."""
    rules = subprocess.run(["ninja", "-C", BUILD, "-t", "targets", "all"], check=True, capture_output=True, text=True).stdout
    wanted = [line.split(":")[0] for line in rules.splitlines()
              if re.search(r"\.(pch|gch): |\.(h|cc|cpp): CUSTOM_COMMAND", line)]
    subprocess.run(["ninja", "-C", BUILD, "-j", str(JOBS), *wanted], check=True, stdout=subprocess.DEVNULL)


def read(entry):
    """What the compiler has to say of one source; nothing if it is well."""
    words, command, skip = [], shlex.split(entry["command"]), False
    for word in command:
        if skip or word in ("-o", "-c"):
            skip = word == "-o"
        else:
            words.append(word)
    if "-fopenmp" in words:  # omp.h is g++'s; clang has it in a package of its own
        words[0] = "g++"
    done = subprocess.run([*words, "-fsyntax-only", "-w"], cwd=entry["directory"], capture_output=True, text=True, errors="replace")
    return entry["file"], done.returncode, done.stderr


def main():
    patterns = sys.argv[1:]
    if not (BUILD / "compile_commands.json").exists():
        sys.exit("plain: no build-plain\nhint: make plain")
    make_what_sources_need()
    entries = [entry for entry in json.loads((BUILD / "compile_commands.json").read_text())
               if not patterns or any(pattern in entry["file"] for pattern in patterns)]
    if not entries:
        sys.exit(f"plain: no source has {' or '.join(patterns)} in its path")
    failed = []
    with ThreadPoolExecutor(JOBS) as pool:
        for number, (file, code, said) in enumerate(pool.map(read, entries), 1):
            if code != 0:
                failed.append(file)
                print(f"plain: {os.path.relpath(file, ROOT)} does not stand alone:\n{said}", flush=True)
            if number % 200 == 0:
                print(f"plain: {number} of {len(entries)}", flush=True)
    print(f"plain: {len(entries) - len(failed)} of {len(entries)} sources and headers stand alone")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
