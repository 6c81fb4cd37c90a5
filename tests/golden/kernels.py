"""Goldens of two kinds of CPU kernels. PyTorch's AVX2 and AVX-512 kernels fuse a product and a sum where its default ones do not, so
that weights drawn between bounds that are no powers of two differ in the last bit, and all that comes of them does. A machine without
AVX2 has the default kernels; ATEN_CPU_CAPABILITY=default asks for them.

A script whose numbers depend on it writes golden_path(__file__), and calls for_both_kernels(main, __file__) instead of main():
golden.json holds what the fused kernels give, golden.default.json the others. tests/support/kernel_golden.h reads the one that fits.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch


def are_default():
    return torch.backends.cpu.get_cpu_capability() == "DEFAULT"


def golden_path(script):
    return Path(script).with_name("golden.default.json" if are_default() else "golden.json")


def for_both_kernels(main, script):
    main()
    if not are_default():
        subprocess.run([sys.executable, "-B", script], env={**os.environ, "ATEN_CPU_CAPABILITY": "default"}, check=True)
    elif os.environ.get("ATEN_CPU_CAPABILITY") != "default":
        print("golden.json was not made: this machine has the default kernels only", file=sys.stderr)
