#!/usr/bin/env python3
"""Parameter importances of optuna 5.0.0 (its default evaluator, PED-ANOVA) of studies made up here. A trial is its value and, by
parameter, the place of its distribution in `distributions` and Optuna's number for it (the index of a category).
"""

import json
import math
import random
import warnings
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution, distribution_to_json

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)

MIXED = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "momentum": FloatDistribution(0.5, 0.99),
    "dropout": FloatDistribution(0.0, 0.9, step=0.1),
    "layers": IntDistribution(1, 6),
    "width": IntDistribution(1, 1000, log=True),
    "batch": IntDistribution(0, 500, step=4),
    "optimizer": CategoricalDistribution(["adam", "sgd", None, True, 3]),
    "seed": IntDistribution(7, 7),
    "one": CategoricalDistribution(["only"]),
}

# Doubles hold not all of these numbers.
LARGE = {
    "wide": IntDistribution(0, 2**62),
    "signed": IntDistribution(-(2**62), 2**62),
    "log": IntDistribution(1, 2**62, log=True),
    "coarse": IntDistribution(0, 2**60, step=2**57),
    "edge": IntDistribution(0, 2**53),
    "beyond 64 bits": IntDistribution(0, 2**70),
}


def draw(rng, distribution):
    if isinstance(distribution, CategoricalDistribution):
        return rng.choice(distribution.choices)
    if isinstance(distribution, IntDistribution):
        if distribution.log:
            return int(math.exp(rng.uniform(math.log(distribution.low), math.log(distribution.high + 0.999))))
        return rng.randrange(distribution.low, distribution.high + 1, distribution.step)
    if distribution.step:
        return round(distribution.low + distribution.step * rng.randint(0, round((distribution.high - distribution.low) / distribution.step)), 10)
    if distribution.log:
        return round(math.exp(rng.uniform(math.log(distribution.low), math.log(distribution.high))), 9)
    return round(rng.uniform(distribution.low, distribution.high), 9)


def study_of(seed, count, space_of, value_of, direction="minimize"):
    rng = random.Random(seed)
    study = optuna.create_study(direction=direction)
    distributions, trials = [], []
    for number in range(count):
        space = space_of(rng, number)
        params = {name: draw(rng, distribution) for name, distribution in space.items()}
        value = value_of(params, rng, number)
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
        row = {}
        for name, distribution in space.items():
            text = distribution_to_json(distribution)
            if text not in distributions:
                distributions.append(text)
            row[name] = [distributions.index(text), distribution.to_internal_repr(params[name])]
        trials.append({"value": value if math.isfinite(value) else "inf", "params": row})
    shares = optuna.importance.get_param_importances(study)
    return {"mode": direction[:3], "distributions": distributions, "trials": trials,
            "importance": {name: float(shares[name]) for name in sorted(shares)}}


def mixed(rng, number):
    return MIXED


def conditional(rng, number):
    kind = rng.choice(["sgd", "adam", "rare"]) if number else "sgd"
    space = {"kind": CategoricalDistribution(["sgd", "adam", "rare"]), "lr": MIXED["lr"]}
    if kind == "sgd":
        space["momentum"] = MIXED["momentum"]
    if kind == "adam":
        space["beta"] = FloatDistribution(0.8, 0.999)
        space["depth"] = IntDistribution(1, 4) if number % 2 else IntDistribution(1, 16)
    return space


def loss(params, rng, number):
    return round((math.log10(params["lr"]) + 2.3) ** 2 + 0.2 * params.get("layers", 1) + 0.4 * (params.get("optimizer") == "sgd")
                 + 0.3 * rng.random() + params.get("momentum", 0.6), 6)


def large_loss(params, rng, number):
    return round((params["wide"] / 2**62 - 0.3) ** 2 + 0.3 * params["coarse"] / 2**60 + 0.02 * math.log2(params["log"])
                 + abs(params["signed"] / 2**62) + 0.1 * rng.random(), 6)


golden = {
    "tolerance": 1e-9,
    "studies": {
        "all kinds of parameters": study_of(1, 150, mixed, loss),
        "the other direction": study_of(2, 60, mixed, lambda p, r, n: -loss(p, r, n), "maximize"),
        "conditions, and a range that differs": study_of(3, 120, conditional, loss),
        "ties and infinities": study_of(4, 80, mixed, lambda p, r, n: math.inf if n % 9 == 0 else float(round(loss(p, r, n)))),
        "a constant": study_of(5, 30, mixed, lambda p, r, n: 1.0),
        "twelve trials": study_of(6, 12, mixed, loss),
        "two trials": study_of(7, 2, mixed, loss),
        "one trial": study_of(8, 1, mixed, loss),
        "whole numbers beyond 2^53": study_of(10, 90, lambda rng, number: LARGE, large_loss),
        "all infinite": study_of(9, 3, conditional, lambda p, r, n: math.inf),
    },
}
text = json.dumps(golden, separators=(",", ":"))
Path(__file__).with_name("golden.json").write_text(text.replace('},{"value"', '},\n{"value"') + "\n")
