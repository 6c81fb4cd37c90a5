"""Writes golden.json beside this file: scales and parameters of torch.amp.GradScaler (CPU) over steps of which some
overflow.

    w = ones(3); loss = (w * x).sum() with x = [1, 2, 3] * (s + 1), or x[1] = inf in the steps of `overflows`; SGD, lr 0.01
"""

import json
from pathlib import Path

import torch

CASES = [
    {"name": "defaults", "options": {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5,
                                     "growth_interval": 2000}, "steps": 8, "overflows": [0, 1, 5]},
    {"name": "grows", "options": {"init_scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.25, "growth_interval": 3},
     "steps": 14, "overflows": [4, 12]},
    {"name": "stops_at_the_largest_float", "options": {"init_scale": 2.0 ** 126, "growth_factor": 4.0, "backoff_factor": 0.5,
                                                       "growth_interval": 1}, "steps": 4, "overflows": []},
]


def run(case):
    scaler = torch.amp.GradScaler("cpu", **case["options"])
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.01)
    scales, trackers, weights = [], [], []
    for step in range(case["steps"]):
        x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) * (step + 1)
        if step in case["overflows"]:
            x[1] = float("inf")
        optimizer.zero_grad()
        scaler.scale((w * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        state = scaler.state_dict()
        scales.append(state["scale"])
        trackers.append(state["_growth_tracker"])
        weights.append(w.tolist())
    return case | {"scales": scales, "growth_trackers": trackers, "weights": weights}


def main():
    golden = {"torch": torch.__version__.split("+")[0], "cases": [run(case) for case in CASES]}
    Path(__file__).with_name("golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
