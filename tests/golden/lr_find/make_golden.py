"""Writes golden.json beside this file: what the rule of Lightning's Tuner.lr_find makes of some made-up losses. C++ follows in
tests/train/plan/lr_search_test.cpp.

Lightning is not installed; the rule is written down here from its description (mode exponential): the rate of step k is base
at k = 0 and then base * (end / base) ** ((k + 1) / num); a running average with beta = 0.98, corrected by 1 - beta ** (step +
1), where the first step is 1; the end at a smoothed loss above 4 times the least one, from the second step on; the suggestion
at the least torch.gradient of the smoothed losses without the first ten and the last.

Run it with the peers' Python: .venv/bin/python tests/golden/lr_find/make_golden.py
"""

import json
import math
from pathlib import Path

import torch


def search(losses, low, high, num, threshold=4.0, beta=0.98):
    average, best, rates, smoothed = 0.0, 0.0, [], []
    for k, loss in enumerate(losses[:num]):
        rates.append(low if k == 0 else low * (high / low) ** ((k + 1) / num))
        average = beta * average + (1 - beta) * loss
        step = k + 1
        value = average / (1 - beta ** (step + 1))
        stop = step > 1 and value > threshold * best
        if step == 1 or value < best:
            best = value
        smoothed.append(value)
        if stop:
            break
    slopes = torch.gradient(torch.tensor(smoothed, dtype=torch.float64)[10:-1])[0]
    at = int(torch.argmin(slopes)) + 10
    return {"rates": rates, "smoothed": smoothed, "at": at}


def valley(num, centre, noise):
    """Flat, a fall, an explosion."""
    generator = torch.Generator().manual_seed(num)
    out = []
    for k in range(num):
        x = k / num
        loss = 2.3 - 1.6 / (1 + math.exp(-(x - centre) * 25)) + math.exp((x - centre - 0.28) * 40)
        out.append(loss + noise * float(torch.rand((), generator=generator)))
    return out


def main():
    cases = []
    for num, low, high, centre, noise in [(100, 1e-8, 1.0, 0.6, 0.02), (60, 1e-5, 10.0, 0.45, 0.0), (40, 1e-4, 0.1, 2.0, 0.3)]:
        losses = valley(num, centre, noise)
        cases.append({"tolerance": 1e-12, "steps": num, "min": low, "max": high, "losses": losses, **search(losses, low, high, num)})
    Path(__file__).with_name("golden.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
