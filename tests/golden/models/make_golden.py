"""Writes golden.json beside this file: initial weights and scores of Python twins of muster/models/zoo.

Run it with the peers' Python: .venv/bin/python tests/golden/models/make_golden.py
README.md beside this file says what C++ must do to get the same numbers.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self, shape, hidden=512, layers=2):
        super().__init__()
        width = shape["channels"] * shape["height"] * shape["width"]
        self.layers = []
        for i in range(1, layers + 2):
            following = hidden if i <= layers else shape["classes"]
            self.layers.append(nn.Linear(width, following))
            self.add_module(f"fc{i}", self.layers[-1])
            width = following

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class Lenet(nn.Module):
    def __init__(self, shape):
        super().__init__()
        padding = 2 if min(shape["height"], shape["width"]) < 32 else 0
        height, width = (((shape[side] + 2 * padding - 4) // 2 - 4) // 2 for side in ("height", "width"))
        self.conv1 = nn.Conv2d(shape["channels"], 6, 5, padding=padding)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * height * width, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, shape["classes"])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Cnn(nn.Module):
    def __init__(self, shape, width=32, hidden=128):
        super().__init__()
        self.conv1 = nn.Conv2d(shape["channels"], width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.fc1 = nn.Linear(2 * width * (shape["height"] // 4) * (shape["width"] // 4), hidden)
        self.fc2 = nn.Linear(hidden, shape["classes"])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2).flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


GREY = {"channels": 1, "height": 28, "width": 28, "classes": 10}
COLOUR = {"channels": 3, "height": 32, "width": 40, "classes": 7}
CASES = [
    (Mlp, "mlp", GREY, {}),
    (Mlp, "mlp", COLOUR, {"hidden": 24, "layers": 3}),
    (Lenet, "lenet", GREY, {}),
    (Lenet, "lenet", COLOUR, {}),
    (Cnn, "cnn", GREY, {}),
    (Cnn, "cnn", COLOUR, {"width": 6, "hidden": 20}),
]


def values(tensor):
    return tensor.detach().double().flatten().tolist()


def make_case(model_type, name, shape, params):
    torch.manual_seed(0)
    model = model_type(shape, **params)
    parameters = {}
    for key, parameter in model.named_parameters():
        flat = values(parameter)
        parameters[key] = {"shape": list(parameter.shape), "first": flat[:3], "last": flat[-3:],
                           "sum": {"value": math.fsum(flat), "tolerance": 1e-9}}
    generator = torch.Generator().manual_seed(11)
    images = torch.rand(4, shape["channels"], shape["height"], shape["width"], generator=generator)
    images = images * 2
    images = images - 1
    model = model.double()
    images = images.double()
    with torch.no_grad():
        model.eval()
        scores_eval = model(images)
        model.train()
        scores_train = model(images)
    buffers = {key: values(buffer) for key, buffer in model.named_buffers() if buffer.is_floating_point()}
    return {"model": name, "shape": shape, "params": {key: str(value) for key, value in params.items()},
            "parameters": parameters,
            "float64": {"tolerance": 1e-10, "scores_eval": [values(row) for row in scores_eval],
                        "scores_train": [values(row) for row in scores_train], "buffers_after": buffers}}


def pretty(value, indent=""):
    """JSON with a line for each entry; what holds only plain values stays on one line."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(v, (dict, list)) for v in inner):
        return json.dumps(value)
    deeper = indent + " "
    if isinstance(value, dict):
        lines = [f"{deeper}{json.dumps(k)}: {pretty(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + pretty(v, deeper) for v in value) + f"\n{indent}]"


def main():
    torch.set_num_threads(1)
    golden = {"torch": torch.__version__.split("+")[0], "cases": [make_case(*case) for case in CASES]}
    Path(__file__).with_name("golden.json").write_text(pretty(golden) + "\n")


if __name__ == "__main__":
    main()
