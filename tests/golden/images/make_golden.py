"""Writes golden.json beside this file: what Pillow's convert("RGB") makes of the files of input/; and sized.json: what torchvision's
Resize and CenterCrop of a tensor make of some of these on a processor with AVX2.

Run it with the peers' Python: .venv/bin/python tests/golden/images/make_golden.py
"""

import json
import sys
import warnings
import zlib
from pathlib import Path

import torch
from PIL import Image
from torchvision.transforms import v2

HERE = Path(__file__).parent
SIZED = [("colour_420.jpg", 16), ("colour_420.jpg", 29), ("colour_420.jpg", 40), ("colour_422.jpg", 7), ("grey.jpg", 20), ("cmyk.jpg", 12),
         ("colour_420_90x2.jpg", 8), ("colour_alpha8.png", 10), ("palette8.png", 11), ("palette8.png", 30)]


def facts(path):
    with Image.open(path) as image:
        pixels = image.convert("RGB")
    data = pixels.tobytes()
    return {"file": path.name, "width": pixels.width, "height": pixels.height, "crc32": f"{zlib.crc32(data):08x}", "start": list(data[:12])}


def sized(name, size):
    with Image.open(HERE / "input" / name) as image:
        pixels = v2.functional.pil_to_tensor(image.convert("RGB"))
    pixels = v2.CenterCrop(size)(v2.Resize(size, antialias=True)(pixels))
    floats = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])(pixels.to(torch.float32) / 255)
    assert pixels.shape == (3, size, size)
    return {"file": name, "size": size, "crc32": f"{zlib.crc32(pixels.contiguous().numpy().tobytes()):08x}",
            "normalized_crc32": f"{zlib.crc32(floats.contiguous().numpy().tobytes()):08x}"}


def main():
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        sys.exit("Muster gives what torchvision gives with AVX2, and this machine has none")
    warnings.simplefilter("ignore")  # transparent palettes
    lines = ",\n".join(" " + json.dumps(facts(path)) for path in sorted((HERE / "input").iterdir()))
    (HERE / "golden.json").write_text(f'{{"images": [\n{lines}\n]}}\n')
    sizes = ",\n".join(" " + json.dumps(sized(*case)) for case in SIZED)
    (HERE / "sized.json").write_text(f'{{"sized": [\n{sizes}\n]}}\n')


if __name__ == "__main__":
    main()
