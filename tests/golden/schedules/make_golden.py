"""Writes golden.json beside this file: learning rates (and momenta) of torch.optim.lr_scheduler over 1,000 steps.

C++ follows in tests/optim/schedule_test.cpp. Value t is that of the optimizer step after t calls of scheduler.step(). To keep the
file small, a case has the values at every 20th t and around 0, 100, 500 and 999 ("at"), and for each hundred the sum of
value(t) * (1 + t % 7) ("sums", in the order of t), so that no t goes unchecked.

Base lr 0.1 and SGD with momentum 0.9 unless the case says otherwise. Warm-up is SequentialLR([LinearLR, X], [warmup]). Plateau sees
    loss(t) = 1 / (1 + t // 8) + ((t * 7919 + 13) % 997) / 4000        accuracy(t) = 1 - loss(t) / 2
after unit t.
"""

import json
import warnings
from pathlib import Path

import torch
from torch.optim import lr_scheduler as s

N = 1000
AT = sorted({*range(0, N, 20), *range(12), *range(96, 104), *range(497, 503), *range(995, N)})
CASES = [
    ("constant", {}, lambda o: s.LambdaLR(o, lambda t: 1.0)),
    ("constant", {"warmup": 100, "warmup_factor": 0.1}, lambda o: s.LinearLR(o, start_factor=0.1, total_iters=100)),
    ("step", {}, lambda o: s.StepLR(o, 30)),
    ("step", {"step_size": 100, "gamma": 0.7, "unit": "step"}, lambda o: s.StepLR(o, 100, 0.7)),
    ("step", {"step_size": 90, "gamma": 0.5, "unit": "step", "warmup": 50}, lambda o: s.StepLR(o, 90, 0.5)),
    ("multi_step", {"milestones": "100+500+900"}, lambda o: s.MultiStepLR(o, [100, 500, 900])),
    ("multi_step", {"milestones": "7+7+300", "gamma": 0.3, "unit": "step", "warmup": 5, "warmup_factor": 0.5},
     lambda o: s.MultiStepLR(o, [7, 7, 300], 0.3)),
    ("exponential", {}, lambda o: s.ExponentialLR(o, 0.95)),
    ("exponential", {"gamma": 0.999, "unit": "step", "warmup": 20}, lambda o: s.ExponentialLR(o, 0.999)),
    ("cosine", {}, lambda o: s.CosineAnnealingLR(o, N)),
    ("cosine", {"t_max": 100, "eta_min": 0.001}, lambda o: s.CosineAnnealingLR(o, 100, 0.001)),
    ("cosine", {"unit": "step", "warmup": 100, "warmup_factor": 0.01}, lambda o: s.CosineAnnealingLR(o, N - 100)),
    ("one_cycle", {}, lambda o: s.OneCycleLR(o, 0.1, total_steps=N)),
    ("one_cycle", {"max_lr": 0.5, "pct_start": 0.17, "anneal": "linear", "base_momentum": 0.8, "max_momentum": 0.9, "div_factor": 10.0,
                   "final_div_factor": 100.0},
     lambda o: s.OneCycleLR(o, 0.5, total_steps=N, pct_start=0.17, anneal_strategy="linear", base_momentum=0.8, max_momentum=0.9,
                            div_factor=10.0, final_div_factor=100.0)),
    ("one_cycle", {"three_phase": True, "pct_start": 0.4}, lambda o: s.OneCycleLR(o, 0.1, total_steps=N, pct_start=0.4, three_phase=True)),
    ("one_cycle", {"three_phase": True, "cycle_momentum": False, "total_steps": 1200, "unit": "epoch"},
     lambda o: s.OneCycleLR(o, 0.1, total_steps=1200, three_phase=True, cycle_momentum=False)),
    ("one_cycle", {"warmup": 100}, lambda o: s.OneCycleLR(o, 0.1, total_steps=N - 100)),
    ("plateau", {}, lambda o: s.ReduceLROnPlateau(o)),
    ("plateau", {"factor": 0.8, "patience": 20, "threshold": 0.01, "cooldown": 15, "min_lr": 0.003},
     lambda o: s.ReduceLROnPlateau(o, factor=0.8, patience=20, threshold=0.01, cooldown=15, min_lr=0.003)),
    ("plateau", {"factor": 0.9, "patience": 3, "threshold": 0.002, "threshold_mode": "abs"},
     lambda o: s.ReduceLROnPlateau(o, factor=0.9, patience=3, threshold=0.002, threshold_mode="abs")),
    ("plateau", {"metric": "accuracy", "factor": 0.5, "patience": 30, "threshold": 0.001, "eps": 0.0001},
     lambda o: s.ReduceLROnPlateau(o, mode="max", factor=0.5, patience=30, threshold=0.001, eps=0.0001)),
    ("plateau", {"metric": "accuracy", "mode": "max", "factor": 0.7, "patience": 0, "threshold": 0.01, "threshold_mode": "abs", "cooldown": 2},
     lambda o: s.ReduceLROnPlateau(o, mode="max", factor=0.7, patience=0, threshold=0.01, threshold_mode="abs", cooldown=2)),
]


def loss(t):
    return 1 / (1 + t // 8) + ((t * 7919 + 13) % 997) / 4000


def run(name, options, make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    if "warmup" in options and name != "constant":
        warmup = s.LinearLR(optimizer, start_factor=options.get("warmup_factor", 1 / 3), total_iters=options["warmup"])
        scheduler = s.SequentialLR(optimizer, [warmup, scheduler], [options["warmup"]])
    values = {"lr": [], "momentum": []}
    for t in range(N):
        values["lr"].append(optimizer.param_groups[0]["lr"])
        values["momentum"].append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        if name == "plateau":
            scheduler.step(1 - loss(t) / 2 if options.get("metric") == "accuracy" else loss(t))
        elif t + 1 < N:
            scheduler.step()
    if name != "one_cycle" or not options.get("cycle_momentum", True):
        del values["momentum"]
    return values


def shrink(values):
    sums = []
    for start in range(0, N, 100):
        total = 0.0
        for t in range(start, start + 100):
            total += values[t] * (1 + t % 7)
        sums.append(total)
    return {"at": [values[t] for t in AT], "sums": sums}


warnings.simplefilter("ignore")
cases = [{"schedule": name, "params": options, "values": {"tolerance": 1e-12, **{k: shrink(v) for k, v in run(name, options, make).items()}}}
         for name, options, make in CASES]
text = json.dumps({"torch": torch.__version__.split("+")[0], "steps": N, "at": AT, "cases": cases})
Path(__file__).with_name("golden.json").write_text(text.replace('{"schedule"', '\n{"schedule"') + "\n")
