"""Writes golden.json beside this file, from optuna 5.0.0; C++ follows in tests/tune/objective/ and tests/tune/search/nsga2/.

"ranks": _fast_non_domination_rank of random losses, with and without violations. "crowding": _calc_crowding_distance of values. "elite":
whom NSGAIIElitePopulationSelectionStrategy lets live, in its order. "dominates": _constrained_dominates of pairs. "hypervolumes" and
"subsets": of optuna._hypervolume. "splits": which complete trials TPE takes for good ones. "children": what
NSGAIIChildGenerationStrategy makes of a population with draws that are written down. Numbers are drawn from few, so that many are equal;
infinities are texts.
"""
import json
import math
import random
import warnings
from pathlib import Path

import numpy as np
import optuna
from optuna._hypervolume import _solve_hssp, compute_hypervolume
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe.sampler import _get_reference_point, _split_trials, default_gamma_multiobjective
from optuna.samplers.nsgaii import UniformCrossover
from optuna.samplers.nsgaii._child_generation_strategy import NSGAIIChildGenerationStrategy
from optuna.samplers.nsgaii._constraints_evaluation import _constrained_dominates
from optuna.samplers.nsgaii._elite_population_selection_strategy import (NSGAIIElitePopulationSelectionStrategy,
                                                                         _calc_crowding_distance)
from optuna.study import StudyDirection
from optuna.study._multi_objective import _fast_non_domination_rank
from optuna.trial import TrialState, create_trial

MODES = {"min": StudyDirection.MINIMIZE, "max": StudyDirection.MAXIMIZE}


def plain(x):
    x = float(x)
    return x if math.isfinite(x) else str(x)


def rows(matrix):
    return [[plain(x) for x in row] for row in matrix]


def number(draw, infinite):
    if infinite and draw.random() < 0.15:
        return draw.choice([math.inf, -math.inf])
    return draw.choice([draw.randrange(5), round(draw.gauss(0, 2), 3)]) * 1.0


def matrix(draw, size, width, infinite=True):
    out = [[number(draw, infinite) for _ in range(width)] for _ in range(size)]
    if size > 4:
        out[1] = list(out[3])  # one twice
    return out


def violations(draw, size):
    return [draw.choice([0.0, 0.0, -1.0, 0.5, 2.0, round(draw.random(), 2)]) for _ in range(size)]


def frozen(number, values, violation=None, params=None, distributions=None):
    trial = create_trial(values=values, params=params or {}, distributions=distributions or {},
                         constraints=None if violation is None else {"0": violation})
    trial.number = trial._trial_id = number
    return trial


def rank_case(draw, size, width):
    losses = matrix(draw, size, width)
    case = {"losses": rows(losses), "ranks": _fast_non_domination_rank(np.array(losses)).tolist()}
    penalty = [max(v, 0.0) for v in violations(draw, size)]
    few = max(1, size // 3)
    return case | {"violations": penalty, "enough": few,
                   "constrained": _fast_non_domination_rank(np.array(losses), penalty=np.array(penalty)).tolist(),
                   "first": _fast_non_domination_rank(np.array(losses), n_below=few).tolist()}


def crowding_case(draw, size, width, infinite):
    values = matrix(draw, size, width, infinite)
    distances = _calc_crowding_distance([frozen(i, row) for i, row in enumerate(values)])
    return {"values": rows(values), "distances": [plain(distances[i]) for i in range(size)]}


class Study:
    def __init__(self, modes):
        self.directions = [MODES[mode] for mode in modes]
        self.direction = self.directions[0]


def elite_case(draw, size, modes, constrained):
    values = matrix(draw, size, len(modes))
    beyond = violations(draw, size) if constrained else [0.0] * size
    trials = [frozen(i, row, beyond[i] if constrained else None) for i, row in enumerate(values)]
    count = max(2, size // 2)
    alive = NSGAIIElitePopulationSelectionStrategy(population_size=count)(Study(modes), trials)
    return {"values": rows(values), "modes": modes, "violations": [max(v, 0.0) for v in beyond], "count": count,
            "elite": [trial.number for trial in alive]}


def domination_case(draw, width):
    a, b = matrix(draw, 2, width)
    if draw.random() < 0.2:
        b = list(a)
    beyond = violations(draw, 2)
    trials = [frozen(i, row, beyond[i]) for i, row in enumerate([a, b])]
    directions = Study(["min"] * width).directions
    return {"a": rows([a])[0], "b": rows([b])[0], "violations": [max(v, 0.0) for v in beyond],
            "dominates": _constrained_dominates(trials[0], trials[1], directions)}


def hypervolume_case(draw, size, width):
    losses = np.array(matrix(draw, size, width, infinite=False))
    reference = losses.max(axis=0) + draw.choice([0.0, 0.5, 1.0])
    return {"losses": rows(losses), "reference": [plain(x) for x in reference],
            "hypervolume": plain(compute_hypervolume(losses, reference))}


def subset_case(draw, size, width):
    # Different numbers: equal contributions are a matter of rounding.
    losses = np.array([[round(draw.gauss(0, 1), 6) for _ in range(width)] for _ in range(size)])
    if size > 6:
        losses[2] = losses[5]
    count = draw.randrange(1, size)
    reference = _get_reference_point(losses)
    chosen = _solve_hssp(losses, np.arange(size), count, reference)
    return {"losses": rows(losses), "count": count, "reference": [plain(x) for x in reference], "chosen": sorted(chosen.tolist())}


def split_case(draw, size, modes):
    values = [[round(draw.gauss(0, 1), 6) for _ in modes] for _ in range(size)]
    if size > 6:
        values[2] = list(values[5])
        values[4][0] = math.inf if modes[0] == "min" else -math.inf
    beyond = [draw.choice([0.0, 0.0, 0.0, 1.0, 2.0]) for _ in range(size)]
    trials = [frozen(i, row, beyond[i]) for i, row in enumerate(values)]
    good, _ = _split_trials(Study(modes), trials, default_gamma_multiobjective(size))
    return {"values": rows(values), "modes": modes, "violations": beyond, "good": [trial.number for trial in good]}


class Written:
    """Draws that are written down: rand() and choice(n) of numpy's RandomState."""

    def __init__(self, draw):
        self.draw, self.uniforms, self.rng = draw, [], self

    def one(self):
        self.uniforms.append(round(self.draw.random(), 6))
        return self.uniforms[-1]

    def rand(self, *shape):
        return np.array([self.one() for _ in range(shape[0])]) if shape else self.one()

    def choice(self, n):
        return int(self.one() * n)


SPACE = {"kind": CategoricalDistribution(["a", "b", "c"]), "x": FloatDistribution(-5, 10), "n": IntDistribution(2, 9),
         "flag": CategoricalDistribution([False, True]), "lr": FloatDistribution(1e-4, 1e-1, log=True)}
AXES = [["kind", "choice('a', 'b', 'c')"], ["x", "uniform(-5, 10)"], ["n", "randint(2, 10)"], ["flag", "choice(false, true)"],
        ["lr", "loguniform(1e-4, 1e-1)"]]


def child_case(draw, size, modes, constrained):
    values = matrix(draw, size, len(modes), infinite=False)
    beyond = violations(draw, size) if constrained else [0.0] * size
    points = [[draw.randrange(3), round(draw.uniform(-5, 10), 3), draw.randrange(2, 10), draw.randrange(2), draw.choice([1e-4, 1e-3, 1e-2])]
              for _ in range(size)]
    trials = []
    for i, point in enumerate(points):
        params = {name: distribution.to_external_repr(at) for (name, distribution), at in zip(SPACE.items(), point)}
        trials.append(frozen(i, values[i], beyond[i] if constrained else None, params, SPACE))
    rng = Written(draw)
    strategy = NSGAIIChildGenerationStrategy(crossover=UniformCrossover(0.5), crossover_prob=0.9, swapping_prob=0.5, rng=rng)
    child = strategy(Study(modes), SPACE, trials)
    at = [None if name not in child else float(distribution.to_internal_repr(child[name])) for name, distribution in SPACE.items()]
    return {"points": points, "values": rows(values), "modes": modes, "violations": [max(v, 0.0) for v in beyond], "uniforms": rng.uniforms,
            "child": at}


warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
assert optuna.__version__ == "5.0.0"
draw = random.Random(24)
TWO, THREE = ["min", "max"], ["max", "min", "min"]
golden = {
    "tolerance": 1e-11,
    "ranks": [rank_case(draw, size, width) for size in [1, 2, 5, 12, 30, 60] for width in [1, 2, 3, 4]],
    "crowding": [crowding_case(draw, size, width, infinite) for size in [1, 2, 3, 8, 20] for width in [1, 2, 3] for infinite in [False, True]],
    "elite": [elite_case(draw, size, modes, constrained) for size in [3, 8, 20, 40] for modes in [["max"], TWO, THREE]
              for constrained in [False, True]],
    "dominates": [domination_case(draw, width) for width in [1, 2, 3] for _ in range(40)],
    "hypervolumes": [hypervolume_case(draw, size, width) for size in [1, 2, 5, 20, 40] for width in [2, 3, 4, 5] for _ in range(2)],
    "subsets": [subset_case(draw, size, width) for size in [2, 7, 12, 20] for width in [2, 3, 4] for _ in range(2)],
    "splits": [split_case(draw, size, modes) for size in [5, 11, 40, 90] for modes in [TWO, THREE]],
    "axes": AXES,
    "children": [child_case(draw, size, modes, constrained) for size in [2, 5, 20] for modes in [["min"], TWO] for constrained in [False, True]
                 for _ in range(5)],
}
lines = [f"{json.dumps(key)}: " + ("[\n{}\n]".format(",\n".join(json.dumps(one) for one in value)) if isinstance(value, list)
                                   else json.dumps(value)) for key, value in golden.items()]
Path(__file__).with_name("golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
