#!/usr/bin/env python3
"""Generations of cmaes 0.13.1, CMA and CMAwM: what was told, and what the distribution was then.

The members of a generation are drawn here, from the distribution as cmaes has it, and rounded, so that neither the signs of
eigenvectors nor the last bits of another CPU's matrix products are in them. Each generation has its members as they were told
(`raw`, `value`), what was tried for them (CMAwM's encoding), and mean, sigma, C, A and should_stop() afterwards.
"""

import json
from pathlib import Path

import cmaes
import numpy as np
from scipy import stats

INF = float("inf")


def rosenbrock(x):
    if len(x) == 1:
        return float((x[0] - 0.3) ** 2)
    return float(sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:])))


def ellipsoid(x):
    return float(sum(10 ** (3 * i / len(x)) * (v - 0.7) ** 2 for i, v in enumerate(x)))


def constant(x):
    return 1.0


def generation(optimizer, inner, axes, rng, function):
    margin = isinstance(optimizer, cmaes.CMAwM)
    root = np.linalg.cholesky(inner._C)
    members = []
    for k in range(optimizer.population_size):
        z = rng.standard_normal(len(axes))
        raw = np.round(inner._mean + inner._sigma * root @ z, 9)
        for i, (low, high, step) in enumerate(axes):
            if step == 0:
                raw[i] = min(max(raw[i], low), high)
        tried = raw.copy()
        if margin and optimizer._n_zdim:
            tried[optimizer._discrete_idx] = optimizer._encode_discrete_params(raw[optimizer._discrete_idx])
        value = function(tried)
        members.append((raw, value if k != 1 or function is constant else INF, tried))  # one that failed
    optimizer.tell([(raw, value) for raw, value, _ in members])
    stop = bool(optimizer.should_stop())
    return {
        "raw": [list(m[0]) for m in members],
        "tried": [list(m[2]) for m in members],
        "value": ["inf" if m[1] == INF else m[1] for m in members],
        "mean": list(inner._mean),
        "sigma": float(inner._sigma),
        "C": [list(row) for row in inner._C],
        "A": list(getattr(optimizer, "_A", np.ones(len(axes)))),
        "stop": stop,
    }


def run(axes, function, generations, seed, margin=True, sigma=1 / 6, population=None, mean=None):
    bounds = np.array([[low, high] for low, high, _ in axes])
    start = np.array(mean if mean is not None else [(low + high) / 2 for low, high, _ in axes], dtype=float)
    if margin:
        steps = np.array([step for _, _, step in axes], dtype=float)
        optimizer = cmaes.CMAwM(mean=start, sigma=sigma, bounds=bounds, steps=steps, population_size=population)
        inner = optimizer._cma
    else:
        optimizer = inner = cmaes.CMA(mean=start, sigma=sigma, bounds=bounds, population_size=population)
    rng = np.random.RandomState(seed)
    return {
        "axes": [{"low": low if low > -INF else "-inf", "high": high if high < INF else "inf", "step": step} for low, high, step in axes],
        "mean": list(start),
        "sigma": sigma,
        "population": optimizer.population_size,
        "generations": [generation(optimizer, inner, axes, rng, function) for _ in range(generations)],
    }


UNIT = (0.0, 1.0, 0.0)
REAL = (-INF, INF, 0.0)
cases = {
    "one axis": run([UNIT], ellipsoid, 8, 1, margin=False),
    "two axes": run([UNIT] * 2, rosenbrock, 12, 2, margin=False),
    "five axes": run([REAL] * 5, rosenbrock, 12, 3, margin=False, sigma=0.5, mean=[0.1, 0.4, -0.3, 0.2, 0.9]),
    "ten axes, a population of its own": run([REAL] * 10, ellipsoid, 6, 4, margin=False, mean=[0.2] * 10, population=14),
    "a population of two": run([UNIT] * 2, ellipsoid, 8, 5, margin=False, population=2),
    "margin: no axis is discrete": run([UNIT] * 3, ellipsoid, 8, 6),
    "margin: whole numbers and a continuous one": run([(0.0, 1.0, 1 / 8), UNIT, (0.0, 1.0, 1 / 3)], ellipsoid, 14, 7),
    "margin: two values each": run([(0.0, 1.0, 1.0)] * 4, ellipsoid, 12, 8),
    "margin: steps of a tenth beside two values": run([(0.0, 1.0, 0.1), (0.0, 1.0, 1.0), (0.0, 1.0, 0.25)], rosenbrock, 14, 9),
    "margin: all at one value": run([(0.0, 1.0, 0.5), (0.0, 1.0, 1 / 63)], ellipsoid, 25, 10, sigma=0.01),
    "a constant is spent": run([UNIT], constant, 20, 11, margin=False),
}

# The quantile that the margin needs, far out too.
tails = [0.5, 0.3, 0.1, 0.025, 0.02425, 0.01, 1e-4, 1e-8, 1e-10, 1e-15, 1e-50, 1e-300, 0.7, 0.999]
golden = {
    "tolerance": 1e-8,
    "cases": cases,
    "quantiles": [{"p": p, "x": float(stats.norm.ppf(p)), "p_back": float(stats.norm.cdf(stats.norm.ppf(p)))} for p in tails],
}
text = json.dumps(golden, indent=None, separators=(",", ":"))
Path(__file__).with_name("golden.json").write_text(text.replace('},"', '},\n"').replace("},{", "},\n{") + "\n")
