#!/usr/bin/env python3
"""fANOVA of optuna 5.0.0 (FanovaImportanceEvaluator). `trees`: forests that scikit-learn has grown, and what Optuna makes of
each tree. `studies`: the shares that Optuna gives studies made up here, for 20 seeds of its forest; ours is another forest.
"""

import json
import math
import random
import warnings
from pathlib import Path

import numpy as np
import optuna
from optuna._transform import _SearchSpaceTransform
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution, distribution_to_json
from optuna.importance import FanovaImportanceEvaluator, get_param_importances

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)

SEEDS = 20
NUMBERS = {"a": FloatDistribution(0.0, 1.0), "b": FloatDistribution(-5.0, 5.0), "c": FloatDistribution(0.0, 1.0)}
MIXED = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "layers": IntDistribution(1, 6),
    "dropout": FloatDistribution(0.0, 0.8, step=0.1),
    "optimizer": CategoricalDistribution(["adam", "sgd", "lion", None]),
    "one": CategoricalDistribution(["only"]),
}
COST = {"adam": 0.0, "sgd": 1.0, "lion": 0.4, None: 2.0}
FUNCTIONS = {
    "a sum": (NUMBERS, lambda p, r: 3 * p["a"] + 0.2 * p["b"] + 0.5 * p["c"]),
    "a product": (NUMBERS, lambda p, r: p["a"] * p["b"] + 0.1 * p["c"]),
    "a valley with noise": (NUMBERS, lambda p, r: (p["a"] - 0.7) ** 2 * 10 + p["b"] ** 2 / 10 + r.random()),
    "a choice": (MIXED, lambda p, r: COST[p["optimizer"]] + 0.1 * p["layers"] + p["dropout"]),
    "a step": (MIXED, lambda p, r: (5.0 if p["layers"] > 3 else 0.0) + 20 * p["lr"] + 0.3 * COST[p["optimizer"]]),
}


def draw(rng, distribution):
    if isinstance(distribution, CategoricalDistribution):
        return rng.choice(distribution.choices)
    if isinstance(distribution, IntDistribution):
        return rng.randint(distribution.low, distribution.high)
    if distribution.step:
        return round(distribution.low + distribution.step * rng.randint(0, 8), 10)
    if distribution.log:
        return round(math.exp(rng.uniform(math.log(distribution.low), math.log(distribution.high))), 9)
    return round(rng.uniform(distribution.low, distribution.high), 9)


def study_of(seed, count, space, value_of):
    rng = random.Random(seed)
    study = optuna.create_study()
    for _ in range(count):
        params = {name: draw(rng, distribution) for name, distribution in space.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=round(value_of(params, rng), 9)))
    return study


def trees_of(study, count, seed):
    evaluator = FanovaImportanceEvaluator(n_trees=count, seed=seed)
    evaluator.evaluate(study)
    fanova = evaluator._evaluator
    columns = [[int(c) for c in columns] for columns in fanova._column_to_encoded_columns]
    trees = []
    for tree in fanova._trees:
        raw = tree._tree
        trees.append({
            "feature": [int(f) for f in raw.feature],
            "threshold": [float(t) if f >= 0 else 0 for t, f in zip(raw.threshold, raw.feature)],
            "left": [int(c) for c in raw.children_left],
            "right": [int(c) for c in raw.children_right],
            "value": [float(v) for v in raw.value.reshape(-1)],
            "variance": float(tree.variance),
            "marginal": [float(tree.get_marginal_variance(np.array(c))) for c in columns],
        })
    return {"bounds": [[float(b) for b in bound] for bound in fanova._trees[0]._search_spaces], "columns": columns, "trees": trees,
            "importance": [fanova.get_importance(i)[0] for i in range(len(columns))]}


def shares_of(name, count):
    space, value_of = FUNCTIONS[name]
    study = study_of(100, count, space, value_of)
    shares = {parameter: [] for parameter in sorted(space)}
    for seed in range(SEEDS):
        of_seed = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed))
        for parameter in shares:
            shares[parameter].append(round(float(of_seed[parameter]), 6))
    trials = [{"value": t.value, "numbers": {n: d.to_internal_repr(t.params[n]) for n, d in sorted(space.items())}} for t in study.trials]
    return {"distributions": {n: distribution_to_json(d) for n, d in sorted(space.items())}, "trials": trials, "shares": shares}


golden = {
    "tolerance": 1e-10,
    "forests": {
        "numbers": trees_of(study_of(1, 50, *FUNCTIONS["a product"]), 3, 1),
        "mixed": trees_of(study_of(2, 60, *FUNCTIONS["a choice"]), 3, 2),
        "few trials": trees_of(study_of(3, 12, *FUNCTIONS["a sum"]), 4, 3),
    },
    "studies": {name: shares_of(name, 40) for name in FUNCTIONS},
}
text = json.dumps(golden, separators=(",", ":"))
Path(__file__).with_name("golden.json").write_text(text.replace('},{"', '},\n{"') + "\n")
