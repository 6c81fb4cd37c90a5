"""Writes golden.json beside this file: what Python finds in Debian's Fashion-MNIST, and torch's floats for each byte.

The hash of an image is FNV-1a over its 784 bytes. `normalised` holds the bits of the float32 numbers that torchvision's
ToTensor and Normalize compute for the bytes 0 … 255: div(255), sub(mean), div(std), one tensor operation each. `fingerprint` is
zlib's CRC-32 of the images behind their dtype and shape as text, and of the labels as int64 behind theirs.
Run it with the peers' Python: .venv/bin/python tests/golden/fashion_mnist/make_golden.py
"""

import gzip
import json
import struct
import zlib
from collections import Counter
from pathlib import Path

import torch
from torchvision.datasets import FashionMNIST

FOLDER = Path("/usr/share/datasets/fashion-mnist")
MEAN, STD = 0.2860, 0.3530


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return f"{h:016x}"


def fingerprint(pixels, labels):
    parts = [f"Byte[{len(labels)}, 1, 28, 28]".encode(), pixels, f"Long[{len(labels)}]".encode(), struct.pack(f"<{len(labels)}q", *labels)]
    return zlib.crc32(b"".join(parts))


def split(prefix):
    pixels = gzip.open(FOLDER / f"{prefix}-images-idx3-ubyte.gz").read()[16:]
    labels = gzip.open(FOLDER / f"{prefix}-labels-idx1-ubyte.gz").read()[8:]
    n = len(labels)
    assert len(pixels) == n * 784
    total, squares = sum(pixels), sum(value * value * count for value, count in Counter(pixels).items())
    mean = total / len(pixels)
    return {
        "samples": n,
        "per_class": [count for _, count in sorted(Counter(labels).items())],
        "first_labels": list(labels[:20]),
        "pixel_sum": total,
        "fingerprint": fingerprint(pixels, labels),
        "mean": f"{mean / 255:.4f}",
        "std": f"{(squares / len(pixels) - mean * mean) ** 0.5 / 255:.4f}",
        "images": {str(i): fnv(pixels[i * 784 : (i + 1) * 784]) for i in (0, 1, 777, n // 2, n - 1)},
    }


def normalised():
    x = torch.arange(256, dtype=torch.uint8).to(torch.float32).div(255)
    x = x.sub_(torch.as_tensor([MEAN], dtype=torch.float32)).div_(torch.as_tensor([STD], dtype=torch.float32))
    return x.view(torch.int32).tolist()


golden = {"train": split("train"), "test": split("t10k"), "normalised": normalised(), "classes": FashionMNIST.classes}
(Path(__file__).parent / "golden.json").write_text(json.dumps(golden, indent=None, separators=(",", ":")) + "\n")
