"""Writes golden.json beside this file: where torch.optim's SGD and AdamW end after 20 steps of given gradients.

C++ follows in tests/train/optimizer_test.cpp. Two parameters, "a" of shape [3, 4] and "b" of shape [5]; for each step s:
    g = Generator().manual_seed(500 + s); a.grad = rand(3, 4) * 2 - 1; b.grad = rand(5) * 2 - 1      (drawn as float32)
Initial values are drawn the same way with seed 499. In steps 3, 4 and 5 "b" has no gradient.
"""

import json
from pathlib import Path

import torch

STEPS = 20
CASES = [
    ("sgd", {"momentum": 0.0}, 0.1),
    ("sgd", {"momentum": 0.9}, 0.1),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.01}, 0.05),
    ("sgd", {"momentum": 0.8, "nesterov": True, "weight_decay": 0.001}, 0.05),
    ("sgd", {"momentum": 0.9, "dampening": 0.3}, 0.05),
    ("adamw", {}, 0.01),
    ("adamw", {"beta1": 0.8, "beta2": 0.95, "eps": 1e-4, "weight_decay": 0.1}, 0.02),
    ("adamw", {"weight_decay": 0.0}, 0.001),
]


def draw(seed, dtype):
    g = torch.Generator().manual_seed(seed)
    a = torch.rand(3, 4, generator=g) * 2 - 1
    b = torch.rand(5, generator=g) * 2 - 1
    return a.to(dtype), b.to(dtype)


def run(kind, options, lr, dtype):
    a, b = (tensor.clone().requires_grad_() for tensor in draw(499, dtype))
    if kind == "sgd":
        optimizer = torch.optim.SGD([a, b], lr=lr, **options)
    else:
        rest = dict(options)
        betas = (rest.pop("beta1", 0.9), rest.pop("beta2", 0.999))
        optimizer = torch.optim.AdamW([a, b], lr=lr, betas=betas, **rest)
    for step in range(STEPS):
        a.grad, b.grad = draw(500 + step, dtype)
        if step in (3, 4, 5):
            b.grad = None
        optimizer.step()
    return {"a": a.detach().double().flatten().tolist(), "b": b.detach().double().tolist()}


cases = []
for kind, options, lr in CASES:
    for name, dtype, tolerance in (("float64", torch.float64, 1e-15), ("float32", torch.float32, 1e-7)):
        cases.append({"optimizer": kind, "params": options, "lr": lr, "dtype": name, "tolerance": tolerance,
                      "final": run(kind, options, lr, dtype)})
Path(__file__).with_name("golden.json").write_text(
    json.dumps({"torch": torch.__version__.split("+")[0], "steps": STEPS, "cases": cases}, indent=1) + "\n")
