#!/usr/bin/env python3
"""PyPI's `cmaes` by itself over recorded tables, as Optuna drives it without a margin: is a difference beside Optuna one of the arithmetic, or of
few seeds? A whole number of n values has n equal parts of [0, 1]; categories are drawn at random.

    cmaes_alone.py TABLES FIRST_SEED END_SEED NAME…      TABLES: the folder that make.py has written

Prints lines of table,seed,trials,regret after 25, 50 and 100 trials.
"""
import json
import sys
from pathlib import Path

import cmaes
import numpy as np

TRIALS = 100
TOLD = (25, 50, 100)


def regrets(table, seed):
    """After each of TOLD."""
    sizes = [len(parameter["choices"]) for parameter in table["parameters"]]
    numbers = [i for i, parameter in enumerate(table["parameters"]) if parameter["ordered"] and sizes[i] > 1]
    strides = np.array([int(np.prod(sizes[i + 1:])) for i in range(len(sizes))])
    steps = np.array([sizes[i] for i in numbers])
    random = np.random.RandomState(seed + 777)
    model = cmaes.CMA(mean=np.full(len(numbers), 0.5), sigma=1 / 6, bounds=np.array([[0.0, 1.0]] * len(numbers)), seed=seed + 1,
                      n_max_resampling=10 * len(numbers))
    least, generation = float("inf"), []
    for trial in range(1, TRIALS + 1):
        places = np.array([random.randint(size) for size in sizes])
        places[numbers] = np.clip(np.floor(model.ask() * steps), 0, steps - 1)
        loss = table["losses"][int((places * strides).sum())]
        least = min(least, loss)
        generation.append(((places[numbers] + 0.5) / steps, loss))
        if len(generation) == model.population_size:
            model.tell(generation)
            generation = []
        if trial in TOLD:
            yield trial, least - table["least"]


def main():
    folder, first, end, *names = sys.argv[1:]
    for name in names:
        table = json.loads((Path(folder) / f"{name}.json").read_text())
        for seed in range(int(first), int(end)):
            for trials, regret in regrets(table, seed):
                print(f"{name},{seed},{trials},{regret!r}", flush=True)


if __name__ == "__main__":
    main()
