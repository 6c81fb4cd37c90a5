"""The Python side of benchmarks/data/transforms: what transform_speed.cpp does, by torchvision, of a tensor or of a PIL image.

    .venv/bin/python benchmarks/data/transforms/peer.py tensor|pillow IMAGE HEIGHT WIDTH CHAIN …
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, v2

BICUBIC, LANCZOS, BILINEAR = InterpolationMode.BICUBIC, InterpolationMode.LANCZOS, InterpolationMode.BILINEAR
# Muster's chains with nothing left to chance, so that all sides do the same: numbers are those that float32 has, in which torchvision draws.
TRANSFORMS = {
    "resize:size=256": v2.Resize(256),
    "resize:size=256,interpolation=bicubic": v2.Resize(256, interpolation=BICUBIC),
    "resize:size=256,interpolation=lanczos": v2.Resize(256, interpolation=LANCZOS),
    "resize:size=800": v2.Resize(800),
    "random_resized_crop:size=224": v2.RandomResizedCrop(224),
    "center_crop:size=224": v2.CenterCrop(224),
    "pad:padding=4,padding_mode=reflect": v2.Pad(4, padding_mode="reflect"),
    "random_horizontal_flip:p=1": v2.RandomHorizontalFlip(1.0),
    "random_vertical_flip:p=1": v2.RandomVerticalFlip(1.0),
    "color_jitter:brightness=[1.25,1.25]": v2.ColorJitter(brightness=(1.25, 1.25)),
    "color_jitter:contrast=[1.25,1.25]": v2.ColorJitter(contrast=(1.25, 1.25)),
    "color_jitter:saturation=[1.25,1.25]": v2.ColorJitter(saturation=(1.25, 1.25)),
    "color_jitter:hue=[0.125,0.125]": v2.ColorJitter(hue=(0.125, 0.125)),
    "grayscale:num_output_channels=3": v2.Grayscale(3),
    "random_invert:p=1": v2.RandomInvert(1.0),
    "random_posterize:bits=3,p=1": v2.RandomPosterize(3, 1.0),
    "random_solarize:threshold=128,p=1": v2.RandomSolarize(128, 1.0),
    "random_autocontrast:p=1": v2.RandomAutocontrast(1.0),
    "random_equalize:p=1": v2.RandomEqualize(1.0),
    "random_adjust_sharpness:sharpness_factor=1.5,p=1": v2.RandomAdjustSharpness(1.5, 1.0),
    "gaussian_blur:kernel_size=5,sigma=1": v2.GaussianBlur(5, 1.0),
    "random_rotation:degrees=[30,30]": v2.RandomRotation((30, 30)),
    "random_rotation:degrees=[30,30],interpolation=bilinear": v2.RandomRotation((30, 30), interpolation=BILINEAR),
}


def measured(transform, image):
    def once():
        out = transform(image)
        return out.contiguous() if isinstance(out, torch.Tensor) else out

    out = once()
    total = int(out.sum()) if isinstance(out, torch.Tensor) else int(np.asarray(out).sum())
    times, begin = 0, time.process_time()
    now = begin
    while now - begin < 0.1:
        for _ in range(4):
            once()
        times += 4
        now = time.process_time()
    return {"seconds": (now - begin) / times, "sum": total}


def main():
    side, file, height, width = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    image = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8).view(3, height, width)
    if side == "pillow":
        image = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
    print(json.dumps({chain: measured(TRANSFORMS[chain], image) for chain in sys.argv[5:]}))


if __name__ == "__main__":
    main()
