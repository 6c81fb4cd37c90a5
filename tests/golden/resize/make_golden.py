"""Writes golden.json beside this file: images resized by torchvision.

Run it with the peers' Python: .venv/bin/python tests/golden/resize/make_golden.py
"""

import json
from pathlib import Path

import torch
from torchvision.transforms.v2 import functional

# Kind, shape before [N, C, H, W], height and width after: larger, smaller, one side each, 1 to 4 channels.
CASES = [
    ("bytes", (2, 1, 7, 9), (13, 12)),
    ("bytes", (2, 3, 8, 5), (16, 10)),
    ("bytes", (1, 3, 20, 31), (7, 11)),
    ("bytes", (2, 4, 6, 20), (9, 8)),
    ("bytes", (3, 1, 28, 28), (9, 9)),
    ("floats", (2, 1, 7, 9), (13, 12)),
    ("floats", (2, 3, 20, 11), (7, 13)),
]


def make_case(kind, shape, size):
    generator = torch.Generator().manual_seed(21)
    images = (torch.randint(256, shape, generator=generator, dtype=torch.uint8) if kind == "bytes"
              else torch.rand(shape, generator=generator))
    pixels = functional.resize(images, list(size), antialias=True).flatten().tolist()
    case = {"kind": kind, "shape": shape, "height": size[0], "width": size[1]}
    return case | ({"pixels": pixels} if kind == "bytes" else {"floats": {"tolerance": 1e-6, "pixels": pixels}})


def main():
    torch.set_num_threads(1)
    cases = ",\n".join(" " + json.dumps(make_case(*case)) for case in CASES)
    Path(__file__).with_name("golden.json").write_text(f'{{"cases": [\n{cases}\n]}}\n')


if __name__ == "__main__":
    main()
