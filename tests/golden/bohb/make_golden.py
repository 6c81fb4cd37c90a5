#!/usr/bin/env python3
"""What hpbandster 0.7.4's BOHB models: histories of results, and after each the budget it has a model of; at times the model
itself: which results are good and bad, the bandwidths, and its acquisition at some points.

Three things are changed in it. np.argsort is stable, so that equal losses (crashes) keep their order on every CPU. Random choices
while it imputes are written down, to be made again. And its densities have two mends (product_kde.h): a category's kernel knows
all levels, where statsmodels counts those that occur, and its bandwidth is at most (levels - 1) / levels. Where neither matters
the value is asserted to be hpbandster's own.
"""

import json
import math
import types
import warnings
from pathlib import Path

import ConfigSpace
import ConfigSpace.hyperparameters as CSH
import numpy as np
from hpbandster.optimizers.config_generators.bohb import BOHB
from statsmodels.nonparametric import kernels

warnings.simplefilter("ignore")
unstable_argsort = np.argsort
np.argsort = lambda values: unstable_argsort(values, kind="stable")


class Recorder(BOHB):
    """Keeps what the last model was made of."""

    def impute_conditional_data(self, array):
        draws = []
        rng = np.random.RandomState(len(self.halves) + 1000)

        def choice(options):
            draws.append(int(rng.randint(len(options))))
            return options[draws[-1]]

        def rand():
            draws.append(float(rng.rand()))
            return draws[-1]

        def randint(count):
            draws.append(int(rng.randint(count)))
            return draws[-1]

        saved = np.random.choice, np.random.rand, np.random.randint
        np.random.choice, np.random.rand, np.random.randint = choice, rand, randint
        try:
            out = super().impute_conditional_data(array)
        finally:
            np.random.choice, np.random.rand, np.random.randint = saved
        self.halves.append({"rows": array, "imputed": out, "draws": draws})
        return out


def float_parameter(name):
    return CSH.UniformFloatHyperparameter(name, 0, 1)


def choice_parameter(name, levels):
    return CSH.CategoricalHyperparameter(name, list(range(levels)))


def density(kde, levels, bandwidths, x):
    product = np.ones(len(kde.data))
    for column, h, level, at in zip(kde.data.T, bandwidths, levels, x):
        if level:
            product *= kernels.aitchison_aitken(h, column, at, num_levels=level)
        else:
            product *= kernels.gaussian(h, column, at) / h
    value = float(product.sum() / len(kde.data))
    all_seen = all(len(set(column)) == level for column, level in zip(kde.data.T, levels) if level)
    if all_seen and np.array_equal(bandwidths, kde.bw):
        assert math.isclose(value, float(kde.pdf(x)), rel_tol=1e-12, abs_tol=1e-300)
    return value


def model(bohb, levels, events, rng):
    kdes = bohb.kde_models[max(bohb.kde_models)]
    bad_half, good_half = bohb.halves[-1], bohb.halves[-2]  # good ones are imputed first
    out = {}
    for name, half, kde in (("good", good_half, kdes["good"]), ("bad", bad_half, kdes["bad"])):
        mended = [min(h, (level - 1) / level) if level else h for h, level in zip(kde.bw, levels)]
        out[name] = {"results": half["results"], "draws": half["draws"], "bandwidths": [float(h) for h in mended]}
    points = []
    for k in range(12):
        x = rng.rand(len(levels)) if k % 2 else kdes["good"].data[rng.randint(len(kdes["good"].data))] + 0.01 * rng.standard_normal(len(levels))
        points.append([float(rng.randint(level)) if level else round(float(np.clip(v, 0, 1)), 9) for v, level in zip(x, levels)])
    out["points"] = points
    g, l = ([density(kdes[side], levels, out[side]["bandwidths"], x) for x in points] for side in ("bad", "good"))
    out["acquisition"] = [max(1e-32, a) / max(b, 1e-32) for a, b in zip(g, l)]
    return out


def history(seed, parameters, budgets, loss_of, conditions=(), min_points=None, every=7):
    rng = np.random.RandomState(seed)
    space = ConfigSpace.ConfigurationSpace(seed=seed)
    space.add(parameters)
    for make in conditions:
        space.add(make(space))
    bohb = Recorder(space, min_points_in_model=min_points)
    bohb.halves = []
    levels = [int(v) for v in bohb.vartypes]
    events, stored, models = [], {}, 0
    for budget in budgets:
        config = space.sample_configuration()
        config = ConfigSpace.Configuration(space, {k: round(v, 6) if isinstance(v, float) else v for k, v in dict(config).items()})
        row = [float(v) for v in config.get_array()]
        loss = loss_of(row, budget, rng)
        result = None if loss is None else {"loss": loss}
        before = bohb.kde_models.get(budget)
        bohb.new_result(types.SimpleNamespace(id=len(events), exception=None, result=result, kwargs={"budget": budget, "config": dict(config)}))
        number = len(events)
        if budget >= (max(bohb.kde_models) if bohb.kde_models else -1):
            stored.setdefault(budget, []).append(number)
        event = {"budget": budget, "row": [None if math.isnan(v) else v for v in row],
                 "loss": "inf" if loss is None or not math.isfinite(loss) else loss,
                 "modelled": max(bohb.kde_models) if bohb.kde_models else None}
        events.append(event)
        if bohb.kde_models.get(budget) is not before:
            numbers = stored[budget]
            order = np.argsort(np.array([math.inf if events[i]["loss"] == "inf" else events[i]["loss"] for i in numbers]))
            good_rows, bad_rows = bohb.halves[-2]["rows"], bohb.halves[-1]["rows"]
            ranked = [numbers[i] for i in order]
            bohb.halves[-2]["results"] = ranked[: len(good_rows)]
            bohb.halves[-1]["results"] = ranked[len(good_rows): len(good_rows) + len(bad_rows)]
            for half in bohb.halves[-2:]:  # they are indeed those
                theirs = [[None if math.isnan(v) else float(v) for v in r] for r in half["rows"]]
                assert theirs == [events[i]["row"] for i in half["results"]]
            models += 1
            if models % every == 1 or number == len(budgets) - 1:
                event["model"] = model(bohb, levels, events, rng)
    return {"levels": levels, "min_points": min_points or 0, "events": events}


def bowl(row, budget, rng):
    return round(float(np.nansum((np.array(row) - 0.4) ** 2) + rng.rand() / budget), 9)


def sometimes_crashes(row, budget, rng):
    draw = rng.rand()
    return None if draw < 0.15 else math.nan if draw < 0.2 else -math.inf if draw < 0.23 else bowl(row, budget, rng)


def rungs(count):  # as a HyperBand would fill them, 27 trials at a time
    out = []
    while len(out) < count:
        out += [1] * 9 + [3] * 3 + [9] + [1] * 9 + [3] * 3 + [9] + [1] * 9 + [3] * 3 + [9]
    return out[:count]


golden = {
    "tolerance": 1e-9,
    "relative_tolerance": 1e-12,
    "histories": {
        "numbers and a category": history(1, [float_parameter("x"), float_parameter("y"), choice_parameter("c", 3)], [1] * 60, bowl),
        "crashes, NaN, minus infinity": history(2, [float_parameter("x"), float_parameter("y")], [1] * 60, sometimes_crashes),
        "budgets": history(3, [float_parameter("x"), choice_parameter("c", 2)], rungs(150), bowl, every=10),
        "levels that do not occur, wide bandwidths": history(4, [choice_parameter("c", 9), float_parameter("x"), choice_parameter("d", 2)], [1] * 40, bowl),
        "conditions": history(
            5, [choice_parameter("a", 2), float_parameter("x"), float_parameter("y"), choice_parameter("z", 3)], [1] * 50, bowl,
            conditions=[lambda s: ConfigSpace.EqualsCondition(s["x"], s["a"], 0), lambda s: ConfigSpace.EqualsCondition(s["y"], s["a"], 1),
                        lambda s: ConfigSpace.EqualsCondition(s["z"], s["a"], 1)]),
        "a model needs more": history(6, [float_parameter("x")], [1] * 40, bowl, min_points=10),
        "eight parameters": history(7, [float_parameter(f"x{i}") for i in range(8)], [2] * 60, bowl, every=14),
    },
}
text = json.dumps(golden, separators=(",", ":"))
Path(__file__).with_name("golden.json").write_text(text.replace('},{"budget"', '},\n{"budget"') + "\n")
