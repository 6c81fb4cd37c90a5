"""Writes golden.json beside this file: verdicts of Ray Tune's ASHA on random report sequences (see ray_asha.py), its rungs, and
quantiles of numpy.nanpercentile, which it computes its cutoffs with. C++ follows in tests/tune/schedulers/asha_golden_test.cpp.
"""

import json
import random
import warnings
from pathlib import Path

import numpy
import ray
import ray_asha

CASES = [
    ({"max_t": 10, "grace_period": 1, "reduction_factor": 2}, "min", 40, 0, 0),
    ({"max_t": 100, "grace_period": 1, "reduction_factor": 4}, "max", 40, 0, 0.3),
    ({"max_t": 27, "grace_period": 2, "reduction_factor": 3}, "max", 40, 0.05, 0.5),
    ({"max_t": 20, "grace_period": 1, "reduction_factor": 2.5}, "min", 40, 0.3, 0.2),
    ({"max_t": 8, "grace_period": 1, "reduction_factor": 2, "stop_last_trials": False}, "max", 30, 0.05, 0.2),
]
LADDERS = [(1, 100, 4), (1, 1000, 10), (1, 243, 3), (1, 125, 5), (3, 50, 2), (10, 10, 2), (7, 1000, 1.5)]


def quantiles(seed, eta):
    draw = random.Random(seed)
    numbers = [round(draw.gauss(0, 1), 3) for _ in range(60)]
    share = (1 - 1 / eta) * 100
    return {"reduction_factor": eta, "numbers": numbers,
            "values": [float(numpy.nanpercentile(numbers[:n], share)) for n in range(1, 61)]}


warnings.simplefilter("ignore")
cases = []
for seed, (options, mode, trials, special, skips) in enumerate(CASES):
    events, answers = ray_asha.sequence(seed, options, mode, trials, special, skips)
    cases.append({"options": options, "mode": mode, "answers": answers, "events": events})
ladders = [{"grace_period": r, "max_t": R, "reduction_factor": eta,
            "rungs": ray_asha.RayAsha({"max_t": R, "grace_period": r, "reduction_factor": eta}, "max").rungs()[0]}
           for r, R, eta in LADDERS]
text = json.dumps({"ray": ray.__version__, "numpy": numpy.__version__, "cases": cases, "ladders": ladders,
                   "quantiles": [quantiles(7, 2), quantiles(8, 4), quantiles(9, 1.3)]})
for key in ('{"options"', '{"grace_period"', '{"reduction_factor"', '"events"'):
    text = text.replace(key, "\n" + key)
Path(__file__).with_name("golden.json").write_text(text + "\n")
