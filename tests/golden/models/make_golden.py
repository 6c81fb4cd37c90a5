"""Writes golden.json beside this file: initial weights and scores of Python twins of muster/models/zoo.

Run it with the peers' Python: .venv/bin/python tests/golden/models/make_golden.py
README.md beside this file says what C++ must do to get the same numbers.
Two kinds of kernels, two files: ../kernels.py.
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from kernels import for_both_kernels, golden_path  # noqa: E402


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


class Lstm(nn.Module):
    def __init__(self, shape, hidden=128, layers=1, bidirectional=False, dropout=0.0, vocabulary=0, embedding=128):
        super().__init__()
        features = shape["channels"] * shape["width"]
        if vocabulary:
            self.embedding = nn.Embedding(vocabulary, embedding)
            features = embedding
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, bidirectional=bidirectional,
                            dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(hidden * (2 if bidirectional else 1), shape["classes"])

    def forward(self, x):
        x = self.embedding(x) if hasattr(self, "embedding") else x.transpose(1, 2).flatten(2)
        _, (state, _) = self.lstm(x)
        return self.fc(self.dropout(torch.cat([state[-2], state[-1]], 1) if self.lstm.bidirectional else state[-1]))


class Transformer(nn.Module):
    def __init__(self, shape, patch=4, width=64, heads=4, layers=2, feedforward=256, dropout=0.1, vocabulary=0, tokens=256):
        super().__init__()
        if vocabulary:
            self.embedding = nn.Embedding(vocabulary, width)
        else:
            self.patches = nn.Conv2d(shape["channels"], width, patch, stride=patch)
            tokens = (shape["height"] // patch) * (shape["width"] // patch)
        self.positions = nn.Parameter(nn.init.normal_(torch.empty(1, tokens, width), 0, 0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, feedforward, dropout, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape["classes"])

    def forward(self, x):
        x = self.embedding(x) if hasattr(self, "embedding") else self.patches(x).flatten(2).transpose(1, 2)
        x = self.dropout(x + self.positions[:, :x.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


GREY = {"channels": 1, "height": 28, "width": 28, "classes": 10}
COLOUR = {"channels": 3, "height": 32, "width": 40, "classes": 7}
CASES = [
    (Mlp, "mlp", GREY, {}),
    (Mlp, "mlp", COLOUR, {"hidden": 24, "layers": 3}),
    (Lenet, "lenet", GREY, {}),
    (Lenet, "lenet", COLOUR, {}),
    (Cnn, "cnn", GREY, {}),
    (Cnn, "cnn", COLOUR, {"width": 6, "hidden": 20}),
    (Lstm, "lstm", GREY, {}),
    (Lstm, "lstm", COLOUR, {"hidden": 9, "layers": 3, "bidirectional": True, "dropout": 0.3}),
    (Lstm, "lstm", COLOUR, {"hidden": 12, "layers": 2}),
    (Transformer, "transformer", GREY, {}),
    (Transformer, "transformer", COLOUR, {"patch": 8, "width": 20, "heads": 5, "layers": 3, "feedforward": 31, "dropout": 0.0}),
    (Transformer, "transformer", COLOUR, {"patch": 4, "width": 16, "heads": 2, "layers": 1, "dropout": 0.5}),
]
# Models over token ids, which only C++ users make: options instead of names.
TOKEN_CASES = [
    (Lstm, "lstm", {"hidden": 7, "layers": 2, "dropout": 0.25, "vocabulary": 11, "embedding": 6}),
    (Transformer, "transformer", {"width": 12, "heads": 3, "layers": 2, "feedforward": 17, "vocabulary": 11, "tokens": 15}),
]


def values(tensor):
    return tensor.detach().double().flatten().tolist()


def rounded(tensor):
    """Two digits more than are compared: the sixteenth is another one on each kind of CPU."""
    return [round(value, 12) for value in values(tensor)]


def both_scores(model, inputs):
    model = model.double()
    torch.manual_seed(5)
    with torch.no_grad():
        return model.eval()(inputs), model.train()(inputs)


def make_token_case(model_type, name, params):
    torch.manual_seed(0)
    model = model_type({"channels": 1, "height": 1, "width": 1, "classes": 3}, **params)
    ids = torch.randint(params["vocabulary"], (4, 13), generator=torch.Generator().manual_seed(11))
    scores_eval, scores_train = both_scores(model, ids)
    return {"model": name, "options": params, "names": [key for key, _ in model.named_parameters()],
            "float64": {"tolerance": 1e-10, "scores_eval": rounded(scores_eval), "scores_train": rounded(scores_train)}}


def make_case(model_type, name, shape, params):
    torch.manual_seed(0)
    model = model_type(shape, **params)
    parameters = {}
    for key, parameter in model.named_parameters():
        flat = values(parameter)
        parameters[key] = {"shape": list(parameter.shape), "first": flat[:3], "last": flat[-3:],
                           "sum": {"value": round(math.fsum(flat), 11), "tolerance": 1e-9}}
    generator = torch.Generator().manual_seed(11)
    images = torch.rand(4, shape["channels"], shape["height"], shape["width"], generator=generator)
    images = images * 2
    images = images - 1
    scores_eval, scores_train = both_scores(model, images.double())
    buffers = {key: rounded(buffer) for key, buffer in model.named_buffers() if buffer.is_floating_point()}
    return {"model": name, "shape": shape, "params": {key: str(value).lower() for key, value in params.items()},
            "parameters": parameters,
            "float64": {"tolerance": 1e-10, "scores_eval": [rounded(row) for row in scores_eval],
                        "scores_train": [rounded(row) for row in scores_train], "buffers_after": buffers}}


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
    golden = {"torch": torch.__version__.split("+")[0], "cases": [make_case(*case) for case in CASES],
              "token_cases": [make_token_case(*case) for case in TOKEN_CASES]}
    golden_path(__file__).write_text(pretty(golden) + "\n")


if __name__ == "__main__":
    for_both_kernels(main, __file__)
