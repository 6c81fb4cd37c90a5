"""Writes golden.json beside this file, from optuna 5.0.0's TPESampler; C++ follows in tests/tune/search/tpe/.

"densities": random observations in spaces of all kinds, and log densities of _ParzenEstimator at random points. Equal observations
share the gaps beside them in the order of numpy.argsort, which is unstable and differs between CPUs; here it is stable.
"quantiles": of draws from such an estimator, per dimension (categories: shares). "splits": which of random trials (complete, pruned,
infeasible, running) are good. "good_counts": default_gamma. "groups": what _SearchSpaceGroup makes of random sets of names.
"suggestions": what the sampler suggests after a history, with so many seeds, and the values of each parameter, sorted.
"""
import json
import math
import random
import warnings
from pathlib import Path

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe import parzen_estimator
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator, _ParzenEstimatorParameters
from optuna.samplers._tpe.sampler import _split_trials, default_gamma, default_weights
from optuna.search_space.group_decomposed import _SearchSpaceGroup

AXES = {
    "uniform(-5, 10)": FloatDistribution(-5, 10),
    "uniform(1000000, 1000001)": FloatDistribution(1e6, 1e6 + 1),
    "loguniform(1e-4, 1e-1)": FloatDistribution(1e-4, 1e-1, log=True),
    "quniform(0, 1, 0.1)": FloatDistribution(0, 1, step=0.1),
    "quniform(-2, 3, 0.25)": FloatDistribution(-2, 3, step=0.25),
    "randint(2, 10)": IntDistribution(2, 9),
    "randint(0, 2)": IntDistribution(0, 1),
    "randint(-1000, 1001)": IntDistribution(-1000, 1000),
    "qrandint(0, 100, 7)": IntDistribution(0, 98, step=7),
    "lograndint(1, 1001)": IntDistribution(1, 1000, log=True),
    "lograndint(16, 1025)": IntDistribution(16, 1024, log=True),
    "choice(2, 4, 8, 16)": CategoricalDistribution([2, 4, 8, 16]),
    "choice('a', 'b')": CategoricalDistribution(["a", "b"]),
}
NOTES = {"axes": ["loguniform(1e-4, 1e-1)", "randint(2, 10)", "choice(2, 4, 8, 16)"], "prior_weight": 1.0,
         "observations": [[1e-3, 3, 0], [1e-2, 3, 2], [5e-2, 8, 2]], "candidates": [[2e-3, 5, 2]]}
SIZES = [0, 1, 2, 3, 7, 24, 25, 26, 27, 60, 97, 98, 99, 100, 150]
DRAWS = 20000


def stable_argsort(a, **_):
    return np.argsort(a, kind="stable")


class StableNumpy:
    argsort = staticmethod(stable_argsort)

    def __getattr__(self, name):
        return getattr(np, name)


def number(draw, distribution):
    """A random number of a dimension, with few digits; a category is its index."""
    if isinstance(distribution, CategoricalDistribution):
        return draw.randrange(len(distribution.choices))
    low, high = distribution.low, distribution.high
    # In clumps, as those of a search are.
    share = min(max(draw.gauss(draw.choice([0.2, 0.5, 0.85]), 0.15), 0), 1) if draw.random() < 0.7 else draw.random()
    at = math.exp(math.log(low) + share * math.log(high / low)) if distribution.log else low + share * (high - low)
    step = distribution.step
    if step is None:
        return min(max(float(f"{at:.9g}"), low), high)
    at = low + round((at - low) / step) * step
    return min(max(round(at, 9), low), high)


def estimator(case):
    space = {f"{i:02}": AXES[text] for i, text in enumerate(case["axes"])}
    observations = {name: np.array([row[i] for row in case["observations"]], dtype=float) for i, name in enumerate(space)}
    parameters = _ParzenEstimatorParameters(prior_weight=case["prior_weight"], consider_magic_clip=True, consider_endpoints=False,
                                            weights=default_weights, multivariate=True)
    return space, _ParzenEstimator(observations, space, parameters)


def with_densities(case):
    space, made = estimator(case)
    points = {name: np.array([row[i] for row in case["candidates"]], dtype=float) for i, name in enumerate(space)}
    return case | {"log_densities": [float(x) for x in made.log_pdf(points)]}


def random_case(draw, size):
    axes = draw.choices(list(AXES), k=draw.choice([1, 1, 2, 3, 5, 8]))
    rows = [[number(draw, AXES[text]) for text in axes] for _ in range(size + 6)]
    if size > 3:
        rows[1] = rows[2]  # a duplicate
    return {"axes": axes, "prior_weight": draw.choice([1.0, 1.0, 0.5, 2.0]), "observations": rows[:size],
            "candidates": rows[size:] + rows[:2 if size > 2 else 0]}


def quantile_case(draw, axes, size):
    case = {"axes": axes, "prior_weight": 1.0, "observations": [[number(draw, AXES[text]) for text in axes] for _ in range(size)]}
    space, made = estimator(case)
    drawn = made.sample(np.random.RandomState(size), DRAWS)
    values = []
    for name, distribution in space.items():
        if isinstance(distribution, CategoricalDistribution):
            values.append([float((drawn[name] == i).mean()) for i in range(len(distribution.choices))])
        else:
            values.append([float(f"{q:.9g}") for q in np.quantile(drawn[name], np.arange(1, 50) / 50)])
    return case | {"quantiles": values}


def random_trial(draw, number, running):
    states = optuna.trial.TrialState
    kind = draw.choice(["complete"] * 5 + ["pruned"] * 4 + ["infeasible", "running"][: 2 if running else 1])
    value = draw.choice([0.0, 1.0, 2.0, round(draw.gauss(0, 1), 3), math.inf])
    row = {"kind": kind, "value": None if math.isinf(value) else value, "step": 0}
    trial = dict(number=number, trial_id=number, value=None, datetime_start=None, datetime_complete=None, params={}, distributions={},
                 user_attrs={}, system_attrs={}, intermediate_values={})
    if kind == "running":
        return row, optuna.trial.FrozenTrial(state=states.RUNNING, **trial)
    if kind == "pruned":
        row["step"] = draw.choice([0, 1, 1, 3, 9])
        if row["step"] > 0:
            steps = range(1, row["step"] + 1)
            trial["intermediate_values"] = {s: 0.5 for s in steps} | {row["step"]: math.nan if row["value"] is None else value}
        else:
            row["value"] = None
        return row, optuna.trial.FrozenTrial(state=states.PRUNED, **trial)
    trial["value"] = value
    if kind == "infeasible":
        row["violation"] = draw.choice([1.0, 2.0])
        trial["system_attrs"] = {"constraints": (row["violation"], -1.0)}
    return row, optuna.trial.FrozenTrial(state=states.COMPLETE, **trial)


def split_case(draw, size):
    study = optuna.create_study()
    rows = [random_trial(draw, number, True) for number in range(size)]
    trials = [trial for _, trial in rows]
    count = default_gamma(sum(not trial.state == optuna.trial.TrialState.RUNNING for trial in trials))
    good, _ = _split_trials(study, trials, count)
    return {"trials": [row for row, _ in rows], "good": [trial.number for trial in good]}


def group_case(draw):
    one = FloatDistribution(0, 1)
    seen = [sorted(name for name in range(6) if draw.random() < 0.6) for _ in range(draw.randrange(1, 6))]
    group = _SearchSpaceGroup()
    for names in seen:
        group.add_distributions({name: one for name in names})
    return {"seen": seen, "groups": sorted(sorted(space) for space in group.search_spaces)}


MIXED = [["lr", "loguniform(1e-4, 1e-1)"], ["width", "randint(2, 10)"], ["batch", "choice(2, 4, 8, 16)"], ["drop", "quniform(0, 1, 0.1)"]]
TREE = [["kind", "choice('a', 'b')"], ["x", "uniform(-5, 10)"], ["of_a", "loguniform(1e-4, 1e-1)", "kind == 'a'"],
        ["more_of_a", "randint(2, 10)", "kind == 'a'"], ["of_b", "uniform(-5, 10)", "kind == 'b'"]]


def suggest(trial, name, distribution):
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    return trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def configuration(space, one):
    """{name: distribution} of the parameters that apply, each asked for by `one(name, distribution)`."""
    values = {}
    for name, text, *when in space:
        if not when or values["kind"] == when[0][-2]:
            values[name] = one(name, AXES[text])
    return values


def suggestion_case(draw, space, options, size, running, seeds):
    """A history whose good trials lie together, and the suggestions after it."""
    distributions = {name: AXES[text] for name, text, *_ in space}
    histories, trials = [], []
    states = optuna.trial.TrialState
    for index in range(size + running):
        def one(name, distribution):
            at = number(draw, distribution)
            return distribution.to_external_repr(at)
        values = configuration(space, one)
        internal = {name: distributions[name].to_internal_repr(value) for name, value in values.items()}
        first = internal[space[1][0]]
        score = round(abs(first - 3) + draw.random() + (internal.get("batch", 0) == 2), 4)
        state = states.RUNNING if index >= size else states.PRUNED if index % 4 == 3 else states.COMPLETE
        step = 1 + index % 3 if state == states.PRUNED else 0
        histories.append({"state": state.name, "point": [internal.get(name) for name, *_ in space], "value": score, "step": step})
        trials.append(dict(state=state, params=values, distributions={name: distributions[name] for name in values},
                           value=score if state == states.COMPLETE else None,
                           intermediate_values={step: score} if state == states.PRUNED else {}))
    found = {name: [] for name, *_ in space}
    for seed in range(seeds):
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, **options))
        for index, trial in enumerate(trials):
            if trial["state"] != states.RUNNING:
                study.add_trial(optuna.trial.create_trial(**trial))
                continue
            # add_trial refuses those that run.
            now = optuna.trial.FrozenTrial(number=index, trial_id=index, user_attrs={}, system_attrs={}, datetime_complete=None,
                                           datetime_start=optuna.trial.create_trial(value=0).datetime_start, **trial)
            study._storage.create_new_trial(study._study_id, template_trial=now)
        asked = study.ask()
        for name, value in configuration(space, lambda name, distribution: suggest(asked, name, distribution)).items():
            found[name].append(float(f"{distributions[name].to_internal_repr(value):.9g}"))
    return {"space": space, "options": options, "history": histories, "seeds": seeds,
            "suggestions": [sorted(found[name]) for name, *_ in space]}


warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
parzen_estimator.np = StableNumpy()
draw = random.Random(16)
golden = {
    "tolerance": 1e-11,
    "densities": [with_densities(NOTES)] + [with_densities(random_case(draw, size)) for size in SIZES for _ in range(3)],
    "draws": DRAWS,
    "quantiles": [quantile_case(draw, ["uniform(-5, 10)", "loguniform(1e-4, 1e-1)", "choice(2, 4, 8, 16)"], 12),
                  quantile_case(draw, ["quniform(0, 1, 0.1)", "lograndint(1, 1001)", "randint(2, 10)"], 30),
                  quantile_case(draw, ["qrandint(0, 100, 7)", "uniform(1000000, 1000001)"], 3)],
    "splits": [split_case(draw, size) for size in [1, 5, 10, 11, 20, 40, 40, 80, 120]],
    "good_counts": [[n, default_gamma(n)] for n in [0, 1, 9, 10, 11, 30, 70, 100, 249, 250, 251, 1000]],
    "groups": [group_case(draw) for _ in range(20)],
    "suggestions": [suggestion_case(draw, MIXED, {}, 40, 5, 600), suggestion_case(draw, MIXED, {"multivariate": False}, 60, 0, 300),
                    suggestion_case(draw, TREE, {}, 50, 3, 600), suggestion_case(draw, TREE, {"group": True}, 50, 3, 600)],
}
lines = [f"{json.dumps(key)}: " + ("[\n{}\n]".format(",\n".join(json.dumps(one) for one in value)) if isinstance(value, list)
                                   else json.dumps(value)) for key, value in golden.items()]
Path(__file__).with_name("golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
