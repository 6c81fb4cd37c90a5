"""The peers' side of benchmarks/tune: the same problems under Optuna's samplers, and what their suggestions cost.

    peer.py [--tables FOLDER] …       the problems that tables/make.py wrote there instead of those below
    peer.py check LINES               compares the functions below with what `tune_quality --check` printed into LINES
    peer.py quality --sampler tpe [--problem NAME …] [--trials 100] [--seeds 20] [--first-seed 0] [--slots 1]
    peer.py cost --sampler tpe --space mixed3|float20 --trials N [--suggestions 20]

`quality` prints the CSV that tune_quality prints, with the sampler in the place of the searcher; `cost` the object that
suggest_cost prints: milliseconds of processor time, all threads'. Samplers are named as our searchers.
"""
import argparse
import collections
import json
import math
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy
import optuna

PI = math.pi
CHECKPOINTS = (25, 50, 100)


def samplers():
    """By the name of our searcher: a function of the seed."""
    made = {
        "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "tpe:group=true": lambda seed: optuna.samplers.TPESampler(seed=seed, group=True),
        "tpe:multivariate=false": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=False),
        "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
        "cma_es": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
    }
    return made


# ---- The problems of problems.cpp: {name: (what draws a configuration, its value, the least value, noise)}. ----


def cube(n, low, high):
    return lambda trial: {f"x{i}": trial.suggest_float(f"x{i}", low, high) for i in range(n)}


def coordinates(config):
    return [config[f"x{i}"] for i in range(len(config))]


def branin(config):
    x, y = config["x0"], config["x1"]
    return (y - 5.1 / (4 * PI**2) * x * x + 5 / PI * x - 6) ** 2 + 10 * (1 - 1 / (8 * PI)) * math.cos(x) + 10


def branin_space(trial):
    return {"x0": trial.suggest_float("x0", -5, 10), "x1": trial.suggest_float("x1", 0, 15)}


HEIGHT = [1, 1.2, 3, 3.2]
STEEP = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
PLACE = [[.1312, .1696, .5569, .0124, .8283, .5886], [.2329, .4135, .8307, .3736, .1004, .9991],
         [.2348, .1451, .3522, .2883, .3047, .6650], [.4047, .8828, .8732, .5743, .1091, .0381]]


def hartmann6(config):
    x = coordinates(config)
    return -sum(h * math.exp(-sum(a * (b - c) ** 2 for a, b, c in zip(steep, x, place)))
                for h, steep, place in zip(HEIGHT, STEEP, PLACE))


def ackley(config):
    x = coordinates(config)
    squares, waves = sum(v * v for v in x) / len(x), sum(math.cos(2 * PI * v) for v in x) / len(x)
    return 20 - 20 * math.exp(-0.2 * math.sqrt(squares)) + math.e - math.exp(waves)


def rosenbrock(config):
    x = coordinates(config)
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def levy(config):
    w = [1 + (v - 1) / 4 for v in coordinates(config)]
    middle = sum((v - 1) ** 2 * (1 + 10 * math.sin(PI * v + 1) ** 2) for v in w[:-1])
    return math.sin(PI * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + math.sin(2 * PI * w[-1]) ** 2)


def rastrigin(config):
    return sum(v * v - 10 * math.cos(2 * PI * v) + 10 for v in coordinates(config))


def sphere(config):
    return sum((config[f"x{5 * i}"] - best) ** 2 for i, best in enumerate([1, -2, 0.5, 3]))


def network_space(trial):
    return {"lr": trial.suggest_float("lr", 1e-4, 1e-1, log=True), "l1": 2 ** trial.suggest_int("log2_l1", 2, 8),
            "batch_size": trial.suggest_categorical("batch_size", [2, 4, 8, 16])}


def network(config):
    u, v, batch = math.log10(config["lr"]) + 2.3, math.log2(config["l1"]) - 6.5, config["batch_size"]
    return (u * u + .1 * v * v + .15 * u * v + .05 * abs(math.log2(batch) - 3) * abs(u)
            + {2: .4, 4: .1, 8: 0, 16: .2}[batch])


def tree_space(trial):
    config = {"optimizer": trial.suggest_categorical("optimizer", ["sgd", "adam"]),
              "lr": trial.suggest_float("lr", 1e-5, 1, log=True)}
    if config["optimizer"] == "sgd":
        config["momentum"] = trial.suggest_float("momentum", 0, 0.99)
    else:
        config["beta1"] = trial.suggest_float("beta1", 0.5, 0.99)
    config["layers"] = trial.suggest_int("layers", 1, 3)
    for k in range(1, config["layers"] + 1):
        config[f"width{k}"] = trial.suggest_int(f"width{k}", 8, 512, log=True)
    return config


def tree(config):
    lr = math.log10(config["lr"])
    if config["optimizer"] == "sgd":
        value = 0.1 + (lr + 1.5) ** 2 + 8 * (config["momentum"] - 0.9) ** 2
    else:
        value = 0.8 * (lr + 3) ** 2 + 12 * (config["beta1"] - 0.85) ** 2
    value += 0.2 * abs(config["layers"] - 2)
    return value + sum(0.3 * (math.log2(config[f"width{k + 1}"]) - (7 - k)) ** 2 for k in range(config["layers"]))


def choices_space(trial):
    return {f"c{i}": trial.suggest_categorical(f"c{i}", [0, 1, 2, 3, 4]) for i in range(6)}


def choices(config):
    kinds = [config[f"c{i}"] for i in range(6)]
    value = sum((3 * kind + 2 * i) % 5 / 4 / (1 + i / 2) for i, kind in enumerate(kinds))
    return value + sum(0.3 for i, (a, b) in enumerate(zip(kinds, kinds[1:])) if (a * b + i) % 3 == 0)


PROBLEMS = {
    "branin": (branin_space, branin, 0.397887357729738, 0),
    "hartmann6": (cube(6, 0, 1), hartmann6, -3.32236801141551, 0),
    "ackley5": (cube(5, -32.768, 32.768), ackley, 0, 0),
    "rosenbrock4": (cube(4, -5, 10), rosenbrock, 0, 0),
    "levy5": (cube(5, -10, 10), levy, 0, 0),
    "rastrigin5": (cube(5, -5.12, 5.12), rastrigin, 0, 0),
    "sphere20": (cube(20, -5, 5), sphere, 0, 0),
    "network": (network_space, network, 0, 0),
    "tree": (tree_space, tree, 0, 0),
    "choices6": (choices_space, choices, 0.575, 0),
    "noisy_branin": (branin_space, branin, 0.397887357729738, 2),
}


def read_tables(folder):
    """The problems of table_problems.cpp."""
    problems = {}
    for file in sorted(Path(folder).glob("*.json")):
        table = json.loads(file.read_text())
        problems[table["name"]] = table_problem(table)
    return problems


def table_problem(table):
    parameters = table["parameters"]

    def space(trial):
        return {one["name"]: trial.suggest_int(one["name"], 0, len(one["choices"]) - 1) if one["ordered"]
                else trial.suggest_categorical(one["name"], one["choices"]) for one in parameters}

    def value(config):
        place = 0
        for one in parameters:
            said = config[one["name"]]
            place = place * len(one["choices"]) + (said if one["ordered"] else one["choices"].index(said))
        return table["losses"][place]

    return space, value, table["least"], 0


def check(arguments):
    for line in open(arguments.lines):
        ours = json.loads(line)
        _, value, least, _ = PROBLEMS[ours["problem"]]
        theirs = value(ours["config"])
        if abs(theirs - ours["value"]) > 1e-9 * max(1, abs(theirs)) or least != ours["least"]:
            sys.exit(f"peer.py: {ours['problem']} is {ours['value']} in problems.cpp and {theirs} here: {ours['config']}")


def one_study(name, make, seed, trials, slots):
    """The regrets of the trial that looked best after 25, 50, 100 trials."""
    space, value, least, noise_sd = PROBLEMS[name]
    noise = numpy.random.RandomState(seed + 10**6)
    study = optuna.create_study(sampler=make(seed))
    running, best_seen, best, finished, out = collections.deque(), math.inf, 0, 0, []

    def finish_first():
        nonlocal best_seen, best, finished
        trial, config = running.popleft()
        true = value(config)
        seen = true + noise_sd * noise.normal()
        study.tell(trial, seen)
        if seen < best_seen:
            best_seen, best = seen, true
        finished += 1
        if finished in CHECKPOINTS or finished % 200 == 0:
            out.append((finished, best - least))

    for _ in range(trials):
        if len(running) == slots:
            finish_first()
        trial = study.ask()
        running.append((trial, space(trial)))
    while running:
        finish_first()
    return out


def quality(arguments):
    print("problem,searcher,seed,after,regret")
    make = samplers()[arguments.sampler]
    shown = f'"{arguments.sampler}"' if "," in arguments.sampler else arguments.sampler
    for name in arguments.problem or PROBLEMS:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for after, regret in one_study(name, make, seed, arguments.trials, arguments.slots):
                print(f"{name},{shown},{seed},{after},{regret!r}", flush=True)


def cost_space(name):
    distributions = optuna.distributions
    if name == "mixed3":
        return {"lr": distributions.FloatDistribution(1e-4, 1e-1, log=True), "l1": distributions.IntDistribution(2, 8),
                "batch_size": distributions.CategoricalDistribution([2, 4, 8, 16])}
    kind = name.rstrip("0123456789")
    one = {"float": distributions.FloatDistribution(0, 1), "int": distributions.IntDistribution(1, 99999, log=True),
           "choice": distributions.CategoricalDistribution([1, 2, 3, 4, 5])}[kind]
    return {f"x{i}": one for i in range(int(name[len(kind):]))}


def cost(arguments):
    space = cost_space(arguments.space)
    # As many evaluated trials as wanted, drawn at random, are put there at once.
    draws = numpy.random.RandomState(1)
    study = optuna.create_study(sampler=samplers()[arguments.sampler](1))

    def draw(distribution):
        if isinstance(distribution, optuna.distributions.CategoricalDistribution):
            return distribution.choices[draws.randint(len(distribution.choices))]
        if isinstance(distribution, optuna.distributions.IntDistribution):
            return int(draws.randint(distribution.low, distribution.high + 1))
        if distribution.log:
            return float(math.exp(draws.uniform(math.log(distribution.low), math.log(distribution.high))))
        return float(draws.uniform(distribution.low, distribution.high))

    def value(params):
        return sum(abs(x - 0.3) for x in params.values())

    for _ in range(arguments.trials):
        params = {name: draw(distribution) for name, distribution in space.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value(params)))
    times = []
    for _ in range(arguments.suggestions):
        start = time.process_time()
        trial = study.ask(space)
        study.tell(trial, value(trial.params))
        times.append((time.process_time() - start) * 1000)
    print(json.dumps({"median_ms": statistics.median(times), "least_ms": min(times), "most_ms": max(times)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables")
    which = parser.add_subparsers(dest="which", required=True)
    checked = which.add_parser("check")
    checked.add_argument("lines")
    for name in ("quality", "cost"):
        one = which.add_parser(name)
        one.add_argument("--sampler", required=True)
        one.add_argument("--trials", type=int, default=100)
        if name == "quality":
            one.add_argument("--problem", action="append")
            one.add_argument("--seeds", type=int, default=20)
            one.add_argument("--first-seed", type=int, default=0)
            one.add_argument("--slots", type=int, default=1)
        else:
            one.add_argument("--space", default="mixed3")
            one.add_argument("--suggestions", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.tables:
        PROBLEMS.clear()
        PROBLEMS.update(read_tables(arguments.tables))
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    {"check": check, "quality": quality, "cost": cost}[arguments.which](arguments)


if __name__ == "__main__":
    main()
