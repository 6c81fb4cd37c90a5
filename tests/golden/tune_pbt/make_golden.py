"""Writes golden.json beside this file: who copies whom and with what, by Ray Tune's PopulationBasedTraining, on random populations (see
ray_pbt.py); its quantiles; and what it makes of single values. C++ follows in tests/tune/schedulers/pbt_golden_test.cpp.
"""

import json
import random
import warnings
from pathlib import Path

import ray
import ray_pbt
from ray import tune

CASES = [
    ({"perturbation_interval": 3}, "max", 8, 300),
    ({"perturbation_interval": 5, "burn_in_period": 11, "quantile_fraction": 0.4}, "min", 12, 400),
    ({"perturbation_interval": 1, "quantile_fraction": 0.5, "perturbation_factors": (1.5, 0.4)}, "max", 5, 200),
    ({"perturbation_interval": 4, "synch": True}, "max", 8, 300),
    ({"perturbation_interval": 2, "synch": True, "burn_in_period": 9, "quantile_fraction": 0.3}, "min", 5, 200),
]


def values(seed):
    """Numbers that stay in their domains, and are far from where a whole one is too small to move."""
    draw, out = random.Random(seed), []
    for _ in range(40):
        up, factors = draw.random() < 0.5, draw.choice([(1.2, 0.8), (2.0, 0.5), (1.1, 0.9)])
        kind = draw.randrange(3)
        domain, text, value = [
            (tune.uniform(-1e9, 1e9), "uniform(-1e9, 1e9)", draw.uniform(-10, 10)),
            (tune.randint(1, 1000000), "randint(1, 1000000)", draw.randint(20, 5000)),
            ([1, 2, 4, 8, 16], "choice(1, 2, 4, 8, 16)", draw.choice([1, 2, 4, 8, 16])),
        ][kind]
        out.append({"domain": text, "value": value, "up": up, "factor": max(factors) if up else min(factors),
                    "explored": ray_pbt.explored(domain, value, up, factors)})
    return out


warnings.simplefilter("ignore")
cases = [{"options": options, "mode": mode, "seed": seed} | ray_pbt.sequence(seed, options, mode, count, reports)
         for seed, (options, mode, count, reports) in enumerate(CASES)]
quantiles = [ray_pbt.quantiles(100 * count + int(100 * fraction), fraction, count)
             for count in (0, 1, 2, 3, 4, 7, 8, 10, 20, 30) for fraction in (0, 0.1, 0.25, 0.3, 0.5)]
text = json.dumps({"ray": ray.__version__, "cases": cases, "quantiles": quantiles, "values": values(1)})
for key in ('{"options"', '"events"', '"answers"', '"saved"', '{"fraction"', '{"domain"'):
    text = text.replace(key, "\n" + key)
Path(__file__).with_name("golden.json").write_text(text + "\n")
