"""Writes golden.json beside this file: initial weights and scores of torchvision's models.

Run it with the peers' Python: .venv/bin/python tests/golden/torchvision/make_golden.py
README.md beside this file says what C++ must do to get the same numbers.
Two kinds of kernels, two files: ../kernels.py.
"""

import json
import sys
from pathlib import Path

import torch
import torchvision.models as peers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from kernels import for_both_kernels, golden_path  # noqa: E402

# Our model, our parameters, torchvision's constructor and its arguments, images' height and width, classes.
CASES = [
    ("alexnet", {}, peers.alexnet, {}, (63, 70), 10),
    ("vgg11", {"dropout": "0.2"}, peers.vgg11, {"dropout": 0.2}, (32, 40), 10),
    ("vgg11", {"batch_norm": "true"}, peers.vgg11_bn, {}, (33, 32), 1000),
    ("vgg16", {}, peers.vgg16, {}, (32, 32), 10),
    ("resnet18", {}, peers.resnet18, {}, (64, 64), 1000),
    ("resnet18", {"zero_init_residual": "true"}, peers.resnet18, {"zero_init_residual": True}, (96, 65), 5),
    ("resnet34", {}, peers.resnet34, {}, (64, 64), 10),
    ("resnet50", {}, peers.resnet50, {}, (64, 96), 10),
]


def bit_sums(tensor):
    bits = tensor.detach().flatten().view(torch.int32)
    return [int(part.sum()) for part in (bits, bits[::3])]


def make_case(name, params, constructor, arguments, size, classes):
    torch.manual_seed(3)
    model = constructor(num_classes=classes, **arguments)
    tensors = {key: [list(p.shape), *bit_sums(p)] for key, p in model.named_parameters()}
    images = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(11))
    torch.manual_seed(5)
    with torch.no_grad():
        scores_train = model.train()(images)
        scores_eval = model.eval()(images)
    return {"model": name, "params": params, "height": size[0], "width": size[1], "classes": classes, "tensors": tensors,
            "buffers": [key for key, _ in model.named_buffers()],
            "train": {"tolerance": 1e-4, "scores": scores_train[:, :10].double().tolist()},
            "eval": {"tolerance": 1e-5, "scores": scores_eval[:, :10].double().tolist()}}


def main():
    torch.set_num_threads(1)
    cases = []
    for case in CASES:
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in make_case(*case).items()]
        cases.append(" {\n" + ",\n".join(lines) + "\n }")
    text = f'{{"torch": "{torch.__version__.split("+")[0]}", "cases": [\n' + ",\n".join(cases) + "\n]}\n"
    golden_path(__file__).write_text(text)


if __name__ == "__main__":
    for_both_kernels(main, __file__)
