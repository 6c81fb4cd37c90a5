"""Writes golden.json beside this file: verdicts of Ray Tune's MedianStoppingRule and of Optuna's PercentilePruner (MedianPruner is
its percentile 50) on random report sequences; see peers.py. C++ follows in tests/tune/schedulers/median_golden_test.cpp.
"""

import json
import warnings
from pathlib import Path

import numpy
import optuna
import peers
import ray

RAY = [
    ({"grace_period": 1}, "min", 0, 0),
    ({"grace_period": 3, "min_samples_required": 2}, "max", 0.05, 0.3),
    ({"grace_period": 2, "min_samples_required": 5}, "min", 0.1, 0.5),
    ({"grace_period": 1, "hard_stop": False}, "max", 0.05, 0.2),
]
OPTUNA = [
    ({}, "min", 0, 0),
    ({"percentile": 25.0, "n_startup_trials": 2, "n_min_trials": 2}, "max", 0.05, 0.2),
    ({"n_startup_trials": 0, "n_warmup_steps": 3, "interval_steps": 3}, "min", 0.1, 0.5),
    ({"percentile": 80.0, "n_startup_trials": 3, "interval_steps": 2, "n_min_trials": 4}, "max", 0.3, 0.1),
]
warnings.simplefilter("ignore")
cases = []
for rule, make, table in (("ray", peers.RayMedian, RAY), ("optuna", peers.OptunaPercentile, OPTUNA)):
    for seed, (options, mode, special, skips) in enumerate(table):
        events, answers = peers.sequence(seed, make(options, mode), mode, 60, special, skips)
        cases.append({"rule": rule, "options": options, "mode": mode, "answers": answers, "events": events})
text = json.dumps({"ray": ray.__version__, "optuna": optuna.__version__, "numpy": numpy.__version__, "cases": cases})
for key in ('{"rule"', '"events"'):
    text = text.replace(key, "\n" + key)
Path(__file__).with_name("golden.json").write_text(text + "\n")
