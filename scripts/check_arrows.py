#!/usr/bin/env python3
"""Refuses an #include against the arrows between rooms (docs/decisions/0001-rooms-and-arrows.md).

    check_arrows.py              checks this tree
    check_arrows.py --self-test  checks the check itself
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Who may include whom, besides itself. A room that is not here is refused until it is.
SEES = {
    "muster/base": [],
    "muster/launch": ["muster/base"],
    "muster/track": ["muster/base"],
    "muster/diagnose": ["muster/base"],
    "muster/tune": ["muster/base", "muster/launch", "muster/track", "muster/diagnose"],
    "muster/dash": ["muster/base", "muster/launch", "muster/track", "muster/diagnose", "muster/tune"],
    "muster/tensor": [],
    "muster/data": ["muster/base", "muster/tensor"],
    "muster/parallel": ["muster/base", "muster/tensor"],
    "muster/memory": ["muster/base"],
    "muster/models": ["muster/base"],
    "muster/train": ["muster/base", "muster/track", "muster/data", "muster/parallel", "muster/memory", "muster/models"],
    "muster/testing": ["muster"],
    "cli": ["muster"],
    "examples": ["muster"],
    "benchmarks": ["muster"],
    "tests": ["muster", "cli", "examples"],
}
TORCH_FREE = ["muster/base", "muster/launch", "muster/track", "muster/diagnose", "muster/tune", "muster/dash", "muster/data/formats",
              "muster/train/formats", "muster/parallel/formats", "cli"]
TORCH_SIDE = ["cli/torch"]  # within a torch-free folder: the part of muster-torch
TORCH_ROOMS = ["muster/tensor", "muster/data", "muster/parallel", "muster/memory", "muster/models", "muster/train", "muster/testing"]
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")
# The wheel's fmt shadows Debian's: neither may be in a header or in a torch room.
FMT_HEADER = re.compile(r"(fmt|spdlog)/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def within(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def torch_free(path):
    return within(path, TORCH_FREE) and not within(path, TORCH_SIDE)


def faults(path, text):
    """What is wrong with the includes of one file; `path` is relative to the root, with slashes."""
    room = next((room for room in SEES if within(path, [room])), None)
    if room is None:
        yield f"{path}: this folder has no arrows\nhint: say in scripts/check_arrows.py what it may see"
        return
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        header = match.group(2)
        if header.startswith(("muster/", "cli/", "tests/", "examples/", "benchmarks/")):
            if not within(header, [room, *SEES[room]]):
                yield f"{path}:{line}: {room} may not see {header}"
            elif torch_free(path) and within(header, TORCH_ROOMS) and not torch_free(header):
                yield f"{path}:{line}: a torch-free file may not see {header}"
        elif TORCH_HEADER.match(header) and torch_free(path):
            yield f"{path}:{line}: a torch-free file may not see <{header}>"
        elif FMT_HEADER.match(header) and (path.endswith(".h") or not torch_free(path)):
            yield f"{path}:{line}: {header} stays in sources of torch-free rooms; base/text.h offers what is needed"


def self_test():
    cases = [
        ("muster/launch/a.cpp", '#include "muster/base/error.h"', 0),
        ("muster/launch/a.cpp", '#include "muster/parallel/ddp/ddp.h"', 1),
        ("muster/base/a.h", "#include <c10/util/Exception.h>", 1),
        ("muster/data/formats/a.cpp", "#  include <torch/torch.h>", 1),
        ("muster/data/formats/a.cpp", '#include "muster/data/dataset.h"', 1),
        ("muster/data/a.cpp", '#include "muster/formats/idx.h"\n#include <torch/torch.h>', 0),
        ("muster/train/a.cpp", '#include "muster/track/progress.h"', 0),
        ("muster/train/a.cpp", '#include "muster/launch/job/job.h"', 1),
        ("muster/parallel/a.cpp", '#include "cli/console.h"', 1),
        ("cli/commands/a.cpp", '#include "muster/train/plan/plan.h"', 1),
        ("cli/torch/commands/a.cpp", '#include "muster/train/plan/plan.h"\n#include <ATen/Parallel.h>', 0),
        ("muster/train/a.cpp", "#include <fmt/format.h>", 1),
        ("tests/cli/a.cpp", '#include "cli/console.h"', 0),
        ("muster/new_room/a.cpp", "", 1),
    ]
    return [f"self-test: {path} {text!r}: {len(found)} faults, expected {count}"
            for path, text, count in cases if len(found := list(faults(path, text))) != count]


def main():
    found = self_test()
    if "--self-test" not in sys.argv:
        folders = sorted({room.split("/")[0] for room in SEES})
        files = sorted(f for folder in folders for f in (ROOT / folder).rglob("*") if f.suffix in (".h", ".cpp"))
        for file in files:
            found += faults(file.relative_to(ROOT).as_posix(), file.read_text())
        print(f"{len(files)} files")
    if found:
        sys.exit("\n".join(found))


main()
