"""hpbandster's BOHB model alone (all trials at one budget) on the problems of peer.py, one trial after another.

    peer_bohb.py [--tables FOLDER] quality [--problem NAME …] [--trials 100] [--seeds 20] [--first-seed 0]
    peer_bohb.py cost --space mixed3|float20 --trials N [--suggestions 20]

Prints what peer.py prints for the sampler "bohb". `quality` replaces two slow calls of hpbandster's, the density and the draw from
a cut normal distribution, by fast ones; the first densities are computed both ways and compared. `cost` has the slow ones.
"""
import argparse
import json
import logging
import math
import statistics
import time
import types
import warnings

import ConfigSpace
import ConfigSpace.hyperparameters as CSH
import numpy
import optuna
import peer
import scipy.stats
from scipy.special import ndtr, ndtri
from statsmodels.nonparametric.kernel_density import KDEMultivariate
from hpbandster.optimizers.config_generators.bohb import BOHB


class Recorder:
    """Stands for Optuna's trial: writes down what a problem asks for, and answers so that each branch is taken once."""

    def __init__(self, branch):
        self.branch, self.parameters = branch, {}

    def suggest_float(self, name, low, high, log=False):
        self.parameters[name] = CSH.UniformFloatHyperparameter(name, low, high, log=log)
        return low

    def suggest_int(self, name, low, high, log=False):
        self.parameters[name] = CSH.UniformIntegerHyperparameter(name, low, high, log=log)
        return high

    def suggest_categorical(self, name, choices):
        self.parameters[name] = CSH.CategoricalHyperparameter(name, [str(choice) for choice in choices])
        return choices[self.branch % len(choices)]


class Given:
    """Stands for Optuna's trial: answers with a configuration of ConfigSpace."""

    def __init__(self, config):
        self.config = config

    def suggest_float(self, name, low, high, log=False):
        return float(self.config[name])

    def suggest_int(self, name, low, high, log=False):
        return int(self.config[name])

    def suggest_categorical(self, name, choices):
        return next(choice for choice in choices if str(choice) == str(self.config[name]))


def space_of(problem, seed):
    parameters = {}
    for branch in range(2):
        recorder = Recorder(branch)
        peer.PROBLEMS[problem][0](recorder)
        parameters |= recorder.parameters
    space = ConfigSpace.ConfigurationSpace(seed=seed)
    space.add(list(parameters.values()))
    if problem == "tree":
        space.add(ConfigSpace.EqualsCondition(space["momentum"], space["optimizer"], "sgd"))
        space.add(ConfigSpace.EqualsCondition(space["beta1"], space["optimizer"], "adam"))
        for k in (2, 3):
            space.add(ConfigSpace.GreaterThanCondition(space[f"width{k}"], space["layers"], k - 1))
    return space


def tell(bohb, number, config, loss):
    bohb.new_result(types.SimpleNamespace(id=number, exception=None, result={"loss": loss}, kwargs={"budget": 1, "config": config}))


SLOW_PDF = KDEMultivariate.pdf
COMPARED = 300


def fast_pdf(kde, point):
    global COMPARED
    density = numpy.ones(len(kde.data))
    for column, (kind, width) in enumerate(zip(kde.var_type, kde.bw)):
        seen, x = kde.data[:, column], point[column]
        if kind == "c":
            density *= numpy.exp(-(((seen - x) / width) ** 2) / 2) / (width * math.sqrt(2 * math.pi))
        else:
            with numpy.errstate(all="ignore"):  # one level alone divides by zero, as hpbandster does
                density *= numpy.where(seen == x, 1 - width, width / numpy.float64(len(numpy.unique(seen)) - 1))
    density = density.mean()
    if COMPARED > 0:
        COMPARED -= 1
        slow = float(SLOW_PDF(kde, list(point)))
        assert not (math.isfinite(slow) or math.isfinite(density)) or abs(slow - density) <= 1e-12 * abs(slow) + 1e-290, (slow, density)
    return density


class FastTruncatedNormal:
    @staticmethod
    def rvs(low, high, loc, scale):
        sign = -1 if low > 0 else 1  # from the tail that has the digits
        first, last = (ndtr(-high), ndtr(-low)) if low > 0 else (ndtr(low), ndtr(high))
        return loc + sign * scale * ndtri(first + numpy.random.uniform() * (last - first))


def quality(arguments):
    KDEMultivariate.pdf, scipy.stats.truncnorm = fast_pdf, FastTruncatedNormal
    print("problem,searcher,seed,after,regret")
    for problem in arguments.problem or peer.PROBLEMS:
        space, value, least, noise_sd = peer.PROBLEMS[problem]
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            numpy.random.seed(seed + 10**5)  # of the model: not the numbers that ConfigSpace draws from `seed`
            noise = numpy.random.RandomState(seed + 10**6)
            bohb = BOHB(space_of(problem, seed))
            best_seen = best = math.inf
            for number in range(arguments.trials):
                config = dict(bohb.get_config(1)[0])
                true = value(space(Given(config)))
                seen = true + noise_sd * noise.normal()
                tell(bohb, number, config, seen)
                if seen < best_seen:
                    best_seen, best = seen, true
                if number + 1 in peer.CHECKPOINTS:
                    print(f"{problem},bohb,{seed},{number + 1},{best - least!r}", flush=True)


def cost(arguments):
    space = ConfigSpace.ConfigurationSpace(seed=1)
    for name, distribution in peer.cost_space(arguments.space).items():
        if isinstance(distribution, optuna.distributions.CategoricalDistribution):
            space.add(CSH.CategoricalHyperparameter(name, list(distribution.choices)))
        else:
            kind = CSH.UniformIntegerHyperparameter if isinstance(distribution, optuna.distributions.IntDistribution) else CSH.UniformFloatHyperparameter
            space.add(kind(name, distribution.low, distribution.high, log=distribution.log))
    numpy.random.seed(1)
    bohb = BOHB(space, random_fraction=0)
    for number in range(arguments.trials):
        config = dict(space.sample_configuration())
        loss = sum(abs(x - 0.3) for x in config.values())
        job = types.SimpleNamespace(id=number, exception=None, result={"loss": loss}, kwargs={"budget": 1, "config": config})
        bohb.new_result(job, update_model=number + 1 == arguments.trials)
    times = []
    for number in range(arguments.suggestions):
        start = time.process_time()
        config = dict(bohb.get_config(1)[0])
        tell(bohb, number, config, sum(abs(x - 0.3) for x in config.values()))
        times.append((time.process_time() - start) * 1000)
    print(json.dumps({"median_ms": statistics.median(times), "least_ms": min(times), "most_ms": max(times)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables")
    which = parser.add_subparsers(dest="which", required=True)
    one = which.add_parser("quality")
    one.add_argument("--problem", action="append")
    one.add_argument("--seeds", type=int, default=20)
    one.add_argument("--first-seed", type=int, default=0)
    two = which.add_parser("cost")
    two.add_argument("--space", default="mixed3")
    two.add_argument("--suggestions", type=int, default=20)
    for each in (one, two):
        each.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.tables:
        peer.PROBLEMS.clear()
        peer.PROBLEMS.update(peer.read_tables(arguments.tables))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    {"quality": quality, "cost": cost}[arguments.which](arguments)


if __name__ == "__main__":
    main()
