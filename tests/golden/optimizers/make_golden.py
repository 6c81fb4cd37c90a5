"""Writes golden.json beside this file: where torch.optim's optimizers end after 16 steps of given gradients.

C++ follows in tests/optim/optimizer_test.cpp. Two parameters, "a" of shape [5, 7] and "b" of shape [5]; for each step s:
    g = Generator().manual_seed(500 + s); a.grad = rand(5, 7) * 2 - 1; b.grad = rand(5) * 2 - 1      (drawn as float32)
Initial values are drawn the same way with seed 499. In steps 3, 4 and 5 "b" has no gradient; with "late" it has none in
steps 0 and 1 instead.

"final" is that of Python's default on the CPU (one tensor after the other), "fused" that of fused=True where there is one.
Tolerances are absolute, for weights of up to 3: the default path and the fused kernels round differently (1e-12 is what we promise; a
few units in the last place are seen); the same kernel differs only by what another CPU's vector width does to it.
"""

import json
from pathlib import Path

import torch

STEPS = 16
CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
TOLERANCES = {"float64": {"final": 1e-14, "fused": 2e-15}, "float32": {"final": 1e-6, "fused": 5e-7}}
CASES = [
    ("sgd", {"momentum": 0.0}, 0.1),
    ("sgd", {"momentum": 0.0, "weight_decay": 0.1, "maximize": True}, 0.1),
    ("sgd", {"momentum": 0.9}, 0.1),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.01}, 0.05),
    ("sgd", {"momentum": 0.8, "nesterov": True, "weight_decay": 0.001}, 0.05),
    ("sgd", {"momentum": 0.9, "dampening": 0.3, "maximize": True}, 0.05),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.01, "late": True}, 0.05),
    ("adam", {}, 0.01),
    ("adam", {"beta1": 0.8, "beta2": 0.95, "eps": 1e-4, "weight_decay": 0.1}, 0.02),
    ("adam", {"amsgrad": True, "beta2": 0.9, "late": True}, 0.02),
    ("adam", {"amsgrad": True, "weight_decay": 0.05, "maximize": True}, 0.01),
    ("adamw", {}, 0.01),
    ("adamw", {"beta1": 0.8, "beta2": 0.95, "eps": 1e-4, "weight_decay": 0.1}, 0.02),
    ("adamw", {"weight_decay": 0.0}, 0.001),
    ("adamw", {"amsgrad": True, "beta2": 0.9, "weight_decay": 0.2, "maximize": True}, 0.02),
    ("rmsprop", {}, 0.01),
    ("rmsprop", {"alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1}, 0.02),
    ("rmsprop", {"momentum": 0.9, "late": True}, 0.005),
    ("rmsprop", {"centered": True}, 0.01),
    ("rmsprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.01, "maximize": True}, 0.01),
]


def draw(seed, dtype):
    g = torch.Generator().manual_seed(seed)
    a = torch.rand(5, 7, generator=g) * 2 - 1
    b = torch.rand(5, generator=g) * 2 - 1
    return a.to(dtype), b.to(dtype)


def run(kind, options, lr, dtype, **implementation):
    a, b = (tensor.clone().requires_grad_() for tensor in draw(499, dtype))
    options = dict(options)
    without = (0, 1) if options.pop("late", False) else (3, 4, 5)
    if kind in ("adam", "adamw"):
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    optimizer = CLASSES[kind]([a, b], lr=lr, **options, **implementation)
    for step in range(STEPS):
        a.grad, b.grad = draw(500 + step, dtype)
        if step in without:
            b.grad = None
        optimizer.step()
    return {"a": a.detach().double().flatten().tolist(), "b": b.detach().double().tolist()}


cases = []
for kind, options, lr in CASES:
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        ends = {"final": run(kind, options, lr, dtype, foreach=False)}
        # Python's own fused=True cannot start a momentum buffer later than the others.
        if kind != "rmsprop" and not (kind == "sgd" and "late" in options):
            ends["fused"] = run(kind, options, lr, dtype, fused=True)
        cases.append({"optimizer": kind, "params": options, "lr": lr, "dtype": name,
                      "ends": {end: {"tolerance": TOLERANCES[name][end], **values} for end, values in ends.items()}})
text = json.dumps({"torch": torch.__version__.split("+")[0], "steps": STEPS, "cases": cases}, indent=None)
Path(__file__).with_name("golden.json").write_text(text.replace('{"optimizer"', '\n{"optimizer"') + "\n")
