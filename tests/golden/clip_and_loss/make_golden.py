"""Writes golden.json beside this file: torch's clip_grad_norm_, cross_entropy with label smoothing, and top-k counts.

C++ follows in tests/optim/clip_test.cpp and loss_test.cpp. Draws are by g = Generator().manual_seed(seed), as float32:
clip:  gradients rand(6, 5, generator=g) * 4 - 2, then rand(7) * 4 - 2, seed 900; a parameter without gradient between them
loss:  scores rand(9, 6, generator=g) * 6 - 3, seed 901; targets randint(0, 6, (9,)) from the same g; "gradient" is that of scores
top-k: scores randint(0, 4, (50, 8)).float() (many ties), seed 902; targets randint(0, 8, (50,)) from the same g
"""

import json
import math
from pathlib import Path

import torch


def clip(max_norm, norm_type, dtype):
    g = torch.Generator().manual_seed(900)
    a, none, b = torch.zeros(6, 5, dtype=dtype), torch.zeros(3), torch.zeros(7, dtype=dtype)
    a.grad = (torch.rand(6, 5, generator=g) * 4 - 2).to(dtype)
    b.grad = (torch.rand(7, generator=g) * 4 - 2).to(dtype)
    norm = torch.nn.utils.clip_grad_norm_([a, none, b], max_norm, norm_type)
    return {"norm": norm.item(), "a": a.grad.double().flatten().tolist(), "b": b.grad.double().tolist()}


def loss(smoothing):
    g = torch.Generator().manual_seed(901)
    scores = (torch.rand(9, 6, generator=g) * 6 - 3).requires_grad_()
    target = torch.randint(0, 6, (9,), generator=g)
    value = torch.nn.functional.cross_entropy(scores, target, label_smoothing=smoothing)
    value.backward()
    return {"loss": value.item(), "gradient": scores.grad.double().flatten().tolist()}


def top_k():
    g = torch.Generator().manual_seed(902)
    scores = torch.randint(0, 4, (50, 8), generator=g).float()
    target = torch.randint(0, 8, (50,), generator=g)
    return [int(scores.topk(k, 1).indices.eq(target.view(-1, 1)).any(1).sum()) for k in range(1, 9)]


clips = [{"max_norm": max_norm, "norm_type": "inf" if math.isinf(norm_type) else norm_type, "dtype": name,
          "result": {"tolerance": tolerance, **clip(max_norm, norm_type, dtype)}}
         for max_norm, norm_type in [(1.0, 2.0), (100.0, 2.0), (0.0, 2.0), (0.5, 1.0), (0.25, math.inf), (2.0, 3.0)]
         for name, dtype, tolerance in [("float64", torch.float64, 1e-14), ("float32", torch.float32, 2e-6)]]
losses = [{"label_smoothing": e, "result": {"tolerance": 5e-7, **loss(e)}} for e in (0.0, 0.1, 1.0)]
text = json.dumps({"torch": torch.__version__.split("+")[0], "clip": clips, "loss": losses, "top_k": top_k()})
text = text.replace('{"max_norm"', '\n{"max_norm"').replace('{"label_smoothing"', '\n{"label_smoothing"').replace('"top_k"', '\n"top_k"')
Path(__file__).with_name("golden.json").write_text(text + "\n")
