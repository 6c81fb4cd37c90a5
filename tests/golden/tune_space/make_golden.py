"""Writes golden.json beside this file; C++ follows in tests/tune/space/space_golden_test.cpp and expression_golden_test.cpp.

"discrete": how often each value came among 20,000 draws of ray.tune's domain. "continuous": 99 quantiles of 20,000 draws of Ray's or
of optuna's RandomSampler. "grids": the configurations of Ray's variant generator in its order, as far as grid_search fills them.
"expressions": random expressions and what Python makes of them; null where it has no value, or none that we have (a whole number
beyond 64 bits, a complex number, an infinity).
"""

import ast
import collections
import json
import math
import random
import warnings
from pathlib import Path

import numpy as np
import optuna
from ray import tune
from ray.tune.search.variant_generator import generate_variants

N = 20000
DISCRETE = ["choice(2, 4, 8, 16)", "quniform(0, 1, 0.25)", "quniform(0, 10, 1)", "quniform(-0.3, 0.3, 0.1)", "qloguniform(1, 5, 1)",
            "qloguniform(0.01, 0.1, 0.01)", "randint(2, 9)", "randint(-3, 4)", "qrandint(0, 10, 3)", "qrandint(-7, 8, 3)",
            "qrandint(0, 10, 1)", "lograndint(1, 10)", "lograndint(100, 109)", "qrandn(0, 1, 0.5)", "qlograndint(1, 100, 10)",
            "qlograndint(8, 64, 8)"]
CONTINUOUS = ["uniform(-2, 5)", "loguniform(1e-4, 1e-1)", "randn()", "randn(3, 0.5)"]
OPTUNA = {"uniform(-2, 5)": optuna.distributions.FloatDistribution(-2, 5),
          "loguniform(1e-4, 1e-1)": optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True)}
OPTUNA_DISCRETE = {"choice(2, 4, 8, 16)": optuna.distributions.CategoricalDistribution([2, 4, 8, 16]),
                   "randint(2, 9)": optuna.distributions.IntDistribution(2, 8),
                   "qrandint(-6, 6, 3)": optuna.distributions.IntDistribution(-6, 6, step=3)}
GRIDS = [({"a": [1, 2], "b": ["x", "y"]}, 1), ({"b": ["x", "y"], "a": [1, 2]}, 2), ({"z": [1, 2, 3], "m.x": [0.5, 1.5], "m.a": [True, False]}, 1),
         ({"b.c": [1, 2], "b_c": [3, 4], "a": [5, 6]}, 1)]


def ray_domain(text):
    """A domain of ours as Ray's: the same text but for choice, whose argument is a list there."""
    names = {name: getattr(tune, name) for name in ["quniform", "uniform", "loguniform", "qloguniform", "randint", "qrandint", "lograndint",
                                                    "qlograndint", "randn", "qrandn"]}
    return eval(text, names | {"choice": lambda *values: tune.choice(list(values))})


def ray_draws(text, seed):
    random_state = np.random.RandomState(seed)
    return [float(v) for v in ray_domain(text).sample(size=N, random_state=random_state)]


def optuna_draws(distribution, seed):
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.create_study(sampler=sampler)
    trial = optuna.trial.FrozenTrial(0, optuna.trial.TrialState.RUNNING, None, None, None, {}, {}, {}, {}, {}, 0)
    return [float(sampler.sample_independent(study, trial, "x", distribution)) for _ in range(N)]


def counts(draws):
    return [[round(value, 12), count] for value, count in sorted(collections.Counter(draws).items())]


def quantiles(draws):
    return [float(f"{q:.9g}") for q in np.quantile(draws, np.arange(1, 100) / 100)]


def nested(flat):
    out = {}
    for name, values in flat.items():
        *groups, last = name.split(".")
        at = out
        for group in groups:
            at = at.setdefault(group, {})
        at[last] = tune.grid_search(values)
    return out


def grid(flat, samples):
    return [config for _ in range(samples) for _, config in generate_variants(nested(flat))]


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "+", "-", "*", "<", "<=", ">", ">=", "==", "!="]


def expression(draw, depth):
    if depth == 0 or draw.random() < 0.15:
        kind = draw.random()
        if kind < 0.35:
            return str(draw.choice([0, 1, 2, 3, 5, 7, 10, 100, 2**31, 2**62, 9223372036854775807]))
        if kind < 0.65:
            return repr(draw.choice([0.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1e-3, 1e10, 1e300, 0.15, 2.675]))
        return draw.choice(["a", "b", "n", "flag"])
    kind = draw.random()
    if kind < 0.1:
        return f"-{expression(draw, depth - 1)}"
    if kind < 0.2:
        return f"{draw.choice(['min', 'max'])}({expression(draw, depth - 1)}, {expression(draw, depth - 1)})"
    if kind < 0.3:
        digits = draw.choice(["", "", ", 0", ", 1", ", 2", ", 5"])
        return f"round({expression(draw, depth - 1)}{digits})"
    if kind < 0.45:
        return f"({expression(draw, depth - 1)})"
    left, right = expression(draw, depth - 1), expression(draw, depth - 1)
    operator = draw.choice(OPERATORS)
    if operator in ("<", "<=", ">", ">=", "==", "!="):
        return f"({left} {operator} {right})"
    return f"{left} {operator} {right}"


NAMES = {"a": 3, "b": -7, "n": 2.75, "flag": True}


class Whole(int):
    """A whole number of 64 bits: what leaves them is an error, as in our expressions."""

    def __new__(cls, value):
        if not -2**63 <= value < 2**63:
            raise OverflowError
        return super().__new__(cls, value)


def checked(result):
    if isinstance(result, bool):
        return result
    if isinstance(result, int):
        return Whole(result)
    if isinstance(result, complex) or not math.isfinite(result):
        raise OverflowError
    return Real(result)


class Real(float):
    pass


def operation(name):
    def apply(self, other):
        base = int if isinstance(self, int) else float
        plain = int(other) if isinstance(other, int) else float(other)
        if name == "__pow__" and base is int and isinstance(plain, int) and plain > 63 and abs(self) > 1:
            raise OverflowError
        result = getattr(base, name)(base(self), plain)
        if result is NotImplemented:
            result = getattr(float, name)(float(self), float(plain))
        return checked(result)
    return apply


for cls in (Whole, Real):
    for name in ("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__"):
        setattr(cls, name, operation(name))
    setattr(cls, "__neg__", lambda self: checked(-(int(self) if isinstance(self, int) else float(self))))
    setattr(cls, "__round__", lambda self, digits=None: checked(
        round(int(self) if isinstance(self, int) else float(self), *([] if digits is None else [int(digits)]))))


def with_limits(text):
    """Python's value, or None if a step has none, or leaves 64 bits or the finite doubles: each number is wrapped."""
    class Wrap(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.Call(ast.Name("wrap", ast.Load()), [node], [])

        def visit_Name(self, node):
            if node.id in ("min", "max", "round"):
                return node
            return ast.Call(ast.Name("wrap", ast.Load()), [node], [])

        def visit_Compare(self, node):
            return ast.Call(ast.Name("wrap", ast.Load()), [self.generic_visit(node)], [])

    tree = ast.fix_missing_locations(Wrap().visit(ast.parse(text, mode="eval")))

    def wrap(value):
        return Whole(int(value)) if isinstance(value, int) else Real(value)

    try:
        value = eval(compile(tree, "", "eval"), {"min": min, "max": max, "round": round, "wrap": wrap}, dict(NAMES))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return int(value) if isinstance(value, int) else float(value)


def expressions(count):
    draw = random.Random(5)
    out = []
    while len(out) < count:
        text = expression(draw, draw.choice([1, 2, 3, 4]))
        if with_limits(text) is None:
            out.append([text, None])
        else:
            value = eval(text, {"min": min, "max": max, "round": round}, dict(NAMES))
            out.append([text, "true" if value is True else "false" if value is False else repr(value)])
    return out


warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
golden = {
    "draws": N,
    "discrete": [{"domain": text, "counts": counts(ray_draws(text, seed))} for seed, text in enumerate(DISCRETE)] +
                [{"domain": text, "counts": counts(optuna_draws(d, seed))} for seed, (text, d) in enumerate(OPTUNA_DISCRETE.items())],
    "continuous": [{"domain": text, "quantiles": quantiles(ray_draws(text, seed))} for seed, text in enumerate(CONTINUOUS)] +
                  [{"domain": text, "quantiles": quantiles(optuna_draws(d, seed))} for seed, (text, d) in enumerate(OPTUNA.items())],
    "grids": [{"space": flat, "num_samples": samples, "configs": grid(flat, samples)} for flat, samples in GRIDS],
    "names": NAMES,
    "expressions": expressions(400),
}
lines = [f"{json.dumps(key)}: " + (f"[\n{{}}\n]".format(",\n".join(json.dumps(one) for one in value)) if isinstance(value, list)
                                   else json.dumps(value)) for key, value in golden.items()]
Path(__file__).with_name("golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
