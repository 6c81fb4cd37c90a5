"""Writes golden.json beside this file: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn over six steps of a
Linear(3, 2) and a BatchNorm1d(2) whose tensors are set by hand, with and without use_buffers. C++ follows in
tests/train/loop/weight_average_test.cpp.

Whole numbers (num_batches_tracked) are left out: PyTorch cuts their mean to a whole number, muster copies them.
The last bit of a lerp depends on whether the CPU fuses its multiply-add, so it is compared with a tolerance; tests of runs compare
with LibTorch's own lerp, bit by bit.

Run it with the peers' Python: .venv/bin/python tests/golden/weight_average/make_golden.py
"""

import json
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 6


def tensors(net):
    return {name: t for name, t in [*net.named_parameters(), *net.named_buffers()] if t.is_floating_point()}


def case(decay, use_buffers):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=use_buffers)
    generator = torch.Generator().manual_seed(11)
    steps = []
    for _ in range(STEPS):
        with torch.no_grad():
            for tensor in tensors(net).values():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
        average.update_parameters(net)
        steps.append({
            "own": {name: t.flatten().tolist() for name, t in tensors(net).items()},
            "average": {name: t.flatten().tolist() for name, t in tensors(average.module).items()},
        })
    return {"decay": decay, "use_buffers": use_buffers, "tolerance": 1e-6, "steps": steps}


def main():
    cases = [case(0.999, True), case(0.9, False), case(0.3, True)]
    path = Path(__file__).with_name("golden.json")
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
