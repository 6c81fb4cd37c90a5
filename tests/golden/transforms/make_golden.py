"""Writes golden.json beside this file: what torchvision's v2 transforms draw and make from seeds.

Run it with the peers' Python: .venv/bin/python tests/golden/transforms/make_golden.py
"""

import json
import sys
from pathlib import Path

import torch
from torchvision.transforms import v2

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "image")]
from cases import EXACT, SAMPLED  # noqa: E402
from images import digest, slopes  # noqa: E402

IMAGE = slopes((3, 21, 34), 2)  # and upright, every other seed
SEEDS = range(12)


def image_of(seed):
    return IMAGE if seed % 2 == 0 else IMAGE.permute(0, 2, 1).contiguous()


def applied(transform, seed):
    torch.manual_seed(seed)
    return transform(image_of(seed))


def exact_cases():
    for chain, transform in EXACT.items():
        results = [applied(transform, seed) for seed in SEEDS]
        yield {"chain": chain, "shapes": [image.shape for image in results], "out": [digest(image) for image in results]}


def sampled_cases():
    for chain, transform in SAMPLED.items():
        results = [applied(transform, seed) for seed in [3, 8]]
        yield {"chain": chain, "seeds": [3, 8], "shapes": [image.shape for image in results],
               "out": [image.contiguous().numpy().tobytes().hex() for image in results]}


def flat(value):
    if isinstance(value, torch.Tensor):
        return flat(value.tolist())
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in flat(part)]
    return [] if value is None else [float(value)]


def drawn_params():
    transforms = {
        "random_crop": v2.RandomCrop([20, 20], padding=[1, 2, 3, 4]),
        "random_resized_crop": v2.RandomResizedCrop(16),
        "random_affine": v2.RandomAffine(20, translate=(0.1, 0.3), scale=(0.7, 1.3), shear=(-5, 5, 3, 20)),
        "random_perspective": v2.RandomPerspective(),
        "color_jitter": v2.ColorJitter(0.4, 0.3, 0.2, 0.1),
        "random_erasing": v2.RandomErasing(value=[1, 2, 3]),
    }
    for name, transform in transforms.items():
        values = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            params = transform.make_params([image_of(seed)])
            params.pop("v", None)
            values.append([number for part in params.values() for number in flat(part)])
        yield {"name": name, "params": list(params), "drawn": {"tolerance": 1e-5, "values": values}}


def mixes():
    images, labels = torch.arange(96.0).view(4, 1, 4, 6) / 96, torch.tensor([2, 0, 1, 2])
    for mix in [v2.MixUp, v2.CutMix]:
        for alpha in [0.3, 1.0]:
            for seed in range(4):
                torch.manual_seed(seed)
                mixed, targets = mix(alpha=alpha, num_classes=3)(images, labels)
                yield {"name": mix.__name__, "alpha": alpha, "seed": seed,
                       "out": {"tolerance": 1e-6, "images": mixed.flatten().tolist(), "targets": targets.flatten().tolist()}}


def main():
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        sys.exit("the test of this golden is for PyTorch's AVX2 kernels, and this machine has others")
    torch.set_num_threads(1)
    golden = {"exact": exact_cases(), "sampled": sampled_cases(), "params": drawn_params(), "mixes": mixes()}
    parts = ",\n".join(f'"{name}": [\n' + ",\n".join(" " + json.dumps(case) for case in cases) + "\n]" for name, cases in golden.items())
    FOLDER.joinpath("golden.json").write_text("{" + parts + "}\n")


if __name__ == "__main__":
    main()
