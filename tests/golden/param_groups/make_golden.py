"""Writes golden.json beside this file: where torch.optim's optimizers with two parameter groups end after 12 steps.

C++ follows in tests/optim/grouped_optimizer_test.cpp. Parameters "a" of shape [5, 7] and "b" of shape [5], drawn as in
../optimizers: g = Generator().manual_seed(499 + s); a = rand(5, 7) * 2 - 1; b = rand(5) * 2 - 1, values with s = 0, gradients of
step s with s = 1, 2, …. "b" is a group of its own with `factor` times the rate and its own weight decay; LambdaLR takes both
rates to 1 - s / 24 of themselves.

Both are trained by the fused kernels that C++ calls; another CPU's vector width is what the tolerance is for.
"""

import json
from pathlib import Path

import torch

STEPS = 12
CLASSES = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
TOLERANCES = {"float64": 2e-15, "float32": 5e-7}
CASES = [
    ("sgd", {"momentum": 0.9, "weight_decay": 0.05}, 0.1, 1.0, 0.0),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.05}, 0.1, 0.1, 0.2),
    ("adamw", {"weight_decay": 0.1}, 0.02, 1.0, 0.0),
    ("adamw", {"weight_decay": 0.1}, 0.02, 5.0, 0.0),
]


def draw(seed, dtype):
    g = torch.Generator().manual_seed(seed)
    a = torch.rand(5, 7, generator=g) * 2 - 1
    b = torch.rand(5, generator=g) * 2 - 1
    return a.to(dtype), b.to(dtype)


def run(kind, options, lr, factor, decay, dtype):
    a, b = (tensor.clone().requires_grad_() for tensor in draw(499, dtype))
    groups = [{"params": [a]}, {"params": [b], "lr": lr * factor, "weight_decay": decay}]
    optimizer = CLASSES[kind](groups, lr=lr, fused=True, **options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 24)
    for step in range(STEPS):
        a.grad, b.grad = draw(500 + step, dtype)
        optimizer.step()
        schedule.step()
    return {"a": a.detach().double().flatten().tolist(), "b": b.detach().double().tolist()}


cases = []
for kind, options, lr, factor, decay in CASES:
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        cases.append({"optimizer": kind, "params": options, "lr": lr, "factor": factor, "weight_decay": decay, "dtype": name,
                      "tolerance": TOLERANCES[name], **run(kind, options, lr, factor, decay, dtype)})
text = json.dumps({"torch": torch.__version__.split("+")[0], "steps": STEPS, "cases": cases}, indent=None)
Path(__file__).with_name("golden.json").write_text(text.replace('{"optimizer"', '\n{"optimizer"') + "\n")
