"""Writes golden.json beside this file: 8-bit images changed by torchvision (of tensors) and Pillow.

Run it with the peers' Python: .venv/bin/python tests/golden/image/make_golden.py
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode, functional

sys.path.insert(0, str(Path(__file__).parent))
from images import KINDS, digest  # noqa: E402

# Before and after, height first: larger, smaller, one side each, by whole and odd factors, tiny, and wider than a vector.
SIZES = [((7, 9), (13, 12)), ((8, 5), (16, 10)), ((20, 31), (7, 11)), ((28, 28), (9, 9)), ((33, 70), (33, 24)), ((41, 50), (97, 50)),
         ((64, 100), (24, 37)), ((90, 61), (180, 200)), ((3, 2), (50, 40)), ((50, 40), (2, 1)), ((1, 1), (5, 6)), ((200, 300), (5, 17)),
         ((17, 16), (16, 17)), ((60, 50), (20, 40)), ((85, 83), (14, 30)), ((90, 30), (40, 31))]
PILLOW = {"nearest": Image.Resampling.NEAREST, "box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR,
          "hamming": Image.Resampling.HAMMING, "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}
TENSOR = ["bilinear", "bicubic", "lanczos"]
COLOR_SHAPES = [(3, 13, 37), (1, 9, 20), (3, 2, 5), (1, 3, 3), (3, 64, 75)]


def by_pillow(image, size, filter_):
    array = image.permute(1, 2, 0).numpy()
    picture = Image.fromarray(array[:, :, 0] if image.shape[0] == 1 else array)
    resized = np.asarray(picture.resize((size[1], size[0]), PILLOW[filter_]))
    return torch.tensor(resized).view(size[0], size[1], image.shape[0]).permute(2, 0, 1)


def by_torchvision(image, size, filter_):
    return functional.resize(image, list(size), interpolation=InterpolationMode(filter_), antialias=True)


def resize_cases():
    for number, (before, after) in enumerate(SIZES):
        for channels in [1, 3]:
            for kind, make in KINDS.items():
                image = make((channels, *before), number + 1)
                pillow = {name: digest(by_pillow(image, after, name)) for name in PILLOW}
                tensor = {name: digest(by_torchvision(image, after, name)) for name in TENSOR}
                yield {"kind": kind, "seed": number + 1, "shape": image.shape, "size": after, "pillow": pillow, "tensor": tensor}


def sizes():
    """Resize's rule for one number, and max_size."""
    for image in [(480, 640), (640, 480), (333, 500), (500, 333), (7, 7), (100, 101), (101, 100), (1, 90), (375, 1242)]:
        for size, most in [(256, None), (224, 300), (None, 300), (100, 133), (33, None), (1, 2)]:
            new = functional._geometry._compute_resized_output_size(image, size=None if size is None else [size], max_size=most)
            yield {"image": image, "size": size or 0, "max_size": most or 0, "new": new}


def geometry_cases():
    image = KINDS["noise"]((3, 9, 40), 3)
    yield {"what": "flip_horizontal", "out": digest(functional.horizontal_flip(image))}
    yield {"what": "flip_vertical", "out": digest(functional.vertical_flip(image))}
    for border, fill in [("constant", [0]), ("constant", [77]), ("constant", [1, 200, 3]), ("edge", [0]), ("reflect", [0]), ("symmetric", [0])]:
        for left, top, right, bottom in [(1, 2, 3, 4), (0, 0, 39, 8), (5, 0, 0, 0), (8, 8, 8, 8)]:
            padded = functional.pad(image, [left, top, right, bottom], fill=[float(f) for f in fill], padding_mode=border)
            yield {"what": border, "fill": fill, "padding": [left, top, right, bottom], "out": digest(padded)}
    for top, left, height, width in [(1, 2, 5, 30), (-2, -3, 8, 12), (4, 30, 10, 20), (-1, -1, 11, 42), (20, 50, 3, 4)]:
        yield {"what": "crop", "box": [top, left, height, width], "out": digest(functional.crop(image, top, left, height, width))}


def color_cases():
    factors = {
        "brightness": (functional.adjust_brightness, [0, 0.3, 0.9999, 1.37, 2.5]),
        "contrast": (functional.adjust_contrast, [0, 0.3, 0.77, 1.37, 2.5]),
        "saturation": (functional.adjust_saturation, [0, 0.3, 0.77, 1.37, 2.5]),
        "hue": (functional.adjust_hue, [-0.5, -0.21, 0, 1e-3, 0.1, 0.3333, 0.5]),
        "sharpness": (functional.adjust_sharpness, [0, 0.3, 1, 1.9, 5]),
        "posterize": (functional.posterize, [0, 1, 4, 7, 8]),
        "solarize": (functional.solarize, [0, 12.5, 128, 255]),
    }
    plain = {"grayscale": functional.rgb_to_grayscale, "invert": functional.invert, "autocontrast": functional.autocontrast,
             "equalize": functional.equalize}
    for number, shape in enumerate(COLOR_SHAPES):
        for kind, make in KINDS.items():
            image = make(shape, number + 5)
            for flat in [False, True]:  # with few values in a channel, and one alone
                if flat:
                    image = image.clamp(90, 97)
                    image[0] = 41
                case = {"kind": kind, "seed": number + 5, "shape": shape, "flat": flat}
                for name, (change, values) in factors.items():
                    yield case | {"what": name, "out": [[value, digest(change(image, value))] for value in values]}
                for name, change in plain.items():
                    yield case | {"what": name, "out": [[0, digest(change(image))]]}


def main():
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        sys.exit("muster::image gives what PyTorch's AVX2 kernels give, and this machine has others")
    torch.set_num_threads(1)
    golden = {"sizes": sizes(), "resize": resize_cases(), "geometry": geometry_cases(), "color": color_cases()}
    parts = ",\n".join(f'"{name}": [\n' + ",\n".join(" " + json.dumps(case) for case in cases) + "\n]" for name, cases in golden.items())
    Path(__file__).with_name("golden.json").write_text("{" + parts + "}\n")


if __name__ == "__main__":
    main()
