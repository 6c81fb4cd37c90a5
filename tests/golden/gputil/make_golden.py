#!/usr/bin/env python3
"""What GPUtil 1.4.0 prints and chooses, of made-up devices: an nvidia-smi of ours answers it.

    tests/golden/gputil/make_golden.py     writes golden.json beside it
"""
import contextlib
import io
import json
import os
import pathlib
import tempfile

import GPUtil

NA = "[N/A]"
# index, utilisation in percent, MiB in all, used, free; [N/A] where nvidia-smi has none (MIG, unified memory).
MACHINES = {
    "four": [(0, 87, 40960, 30000, 10960), (1, 0, 40960, 4, 40956), (2, 12, 81920, 30000, 51920), (3, 49, 40960, 20479, 20481)],
    "edges": [(0, 50, 1000, 0, 1000), (1, 49, 1000, 500, 500), (2, 0, 1000, 499, 501), (3, 100, 1000, 1000, 0)],
    "unknown": [(0, NA, 40960, 100, 40860), (1, 30, 16000, 100, 15900), (2, NA, 40960, 40000, 960), (3, 0, NA, NA, NA)],
    "ties": [(0, 5, 1000, 100, 900), (1, 5, 1000, 50, 950), (2, 0, 1000, 100, 900)],
    "many": [(i, i * 9, 1000, 1000 - i * 90, i * 90) for i in range(12)],
    "none": [],
}
ASKED = [
    {}, {"limit": 10}, {"order": "last", "limit": 2}, {"order": "load", "limit": 10}, {"order": "memory", "limit": 10},
    {"limit": 10, "maxLoad": 0.1}, {"limit": 10, "maxMemory": 0.9, "maxLoad": 1.1}, {"limit": 10, "includeNan": True},
    {"order": "load", "limit": 10, "includeNan": True, "maxLoad": 2, "maxMemory": 2},
    {"order": "memory", "limit": 10, "includeNan": True, "maxLoad": 2, "maxMemory": 2},
    {"limit": 10, "memoryFree": 20481}, {"limit": 10, "excludeID": [1, 3]}, {"limit": 10, "excludeUUID": ["GPU-2"]}, {"limit": 0},
]


def answers(devices, folder):
    lines = [f"{index}, GPU-{index}, {load}, {total}, {used}, {free}, 550.54.15, A, {NA}, Disabled, Enabled, 40\n"
             for index, load, total, used, free in devices]
    (folder / "lines").write_text("".join(lines))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        GPUtil.showUtilization()
    return {"devices": [[None if value == NA else value for value in device] for device in devices],
            "showUtilization": printed.getvalue(),
            "getAvailable": [GPUtil.getAvailable(**asked) for asked in ASKED]}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat {folder}/lines\n")
        program.chmod(0o755)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        golden = {"asked": ASKED, "machines": {name: answers(devices, folder) for name, devices in MACHINES.items()}}
    (pathlib.Path(__file__).parent / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
