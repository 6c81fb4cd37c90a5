"""Writes golden.json beside this file: what Optuna's Gaussian process says on random data, at fixed hyperparameters and at its own
maximum a posteriori. C++ follows in tests/tune/search/gp/gp_golden_test.cpp.

A case has points (columns: numbers in [0, 1] and categories), targets, hyperparameters, points to ask about, and there posterior
mean and variance, logEI, its gradient, and, given running trials and the draws of torch's Sobol engine, qLogEI. Draws of another
library need not be equal; what is made of them must be.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import optuna
import scipy
import torch
from optuna._gp import acqf, gp, prior
from optuna._gp.qmc import sample_from_normal_sobol
from optuna._gp.search_space import SearchSpace
from optuna.distributions import CategoricalDistribution, FloatDistribution

warnings.simplefilter("ignore")
torch.set_num_threads(1)
TOLERANCE = 1e-8
SAMPLES = 16


def rounded(array, digits=6):
    return np.round(np.asarray(array, dtype=float), digits)


def data(draw, n, numbers, categories, noise, duplicates=False):
    x = np.concatenate([draw.uniform(size=(n, numbers)), draw.integers(0, 3, size=(n, categories)).astype(float)], axis=1)
    if duplicates:
        x[n // 2:] = x[: n - n // 2]
    w = draw.normal(size=numbers + categories)
    y = np.sin(3 * x @ w) + x[:, 0] + noise * draw.normal(size=n)
    return rounded(x), rounded((y - y.mean()) / max(y.std(), 1e-10))


def regressor(x, y, is_categorical, hyper):
    out = gp.GPRegressor(torch.from_numpy(is_categorical), torch.from_numpy(x), torch.from_numpy(y),
                         torch.tensor(hyper["weights"], dtype=torch.float64), torch.tensor(hyper["scale"], dtype=torch.float64),
                         torch.tensor(hyper["noise"], dtype=torch.float64))
    out._cache_matrix()
    return out


def space(numbers, categories):
    return SearchSpace({**{f"x{i}": FloatDistribution(0, 1) for i in range(numbers)},
                        **{f"c{i}": CategoricalDistribution([0, 1, 2]) for i in range(categories)}})


def with_gradient(function, at):
    x = torch.from_numpy(at).requires_grad_(True)
    values = function.eval_acqf(x)
    values.sum().backward()
    # Optuna's gradient of logEI is NaN where its logarithm of 0 is not the one that is used.
    return values.detach().tolist(), [[g if np.isfinite(g) else None for g in row] for row in x.grad.tolist()]


def loss(model):
    return float(-model.marginal_log_likelihood() - prior.default_log_prior(model))


def posterior_case(seed):
    draw = np.random.default_rng(seed)
    n, numbers, categories = int(draw.integers(1, 30)), int(draw.integers(1, 5)), int(draw.integers(0, 3))
    axes = numbers + categories
    x, y = data(draw, n, numbers, categories, 0.1)
    is_categorical = np.array([False] * numbers + [True] * categories)
    hyper = {"weights": rounded(np.exp(draw.normal(size=axes))).tolist(), "scale": float(rounded(np.exp(draw.normal()))),
             "noise": float(rounded(10 ** draw.uniform(-5, -1)))}
    asked, _ = data(draw, 12, numbers, categories, 0)
    running, _ = data(draw, int(draw.integers(1, 6)), numbers, categories, 0)
    threshold = float(y.max())
    model = regressor(x, y, is_categorical, hyper)
    mean, variance = model.posterior(torch.from_numpy(asked))
    log_ei, log_ei_gradient = with_gradient(acqf.LogEI(model, space(numbers, categories), threshold), asked)
    qmc_seed = int(draw.integers(1000))
    q = acqf.qLogEI(model, space(numbers, categories), threshold, SAMPLES, qmc_seed, running)
    q_log_ei, q_log_ei_gradient = with_gradient(q, asked)
    draws = sample_from_normal_sobol(len(running) + 1, SAMPLES, qmc_seed)
    log_pi = acqf.LogPI(model, space(numbers, categories), 0.3).eval_acqf(torch.from_numpy(asked)).tolist()
    return {"tolerance": TOLERANCE, "categories": categories, "points": x.tolist(), "targets": y.tolist(), "hyper": hyper,
            "asked": asked.tolist(), "loss": loss(model), "mean": mean.tolist(), "variance": variance.tolist(), "threshold": threshold, "log_ei": log_ei,
            "log_ei_gradient": log_ei_gradient, "running": running.tolist(), "draws": draws.T.tolist(), "q_log_ei": q_log_ei,
            "q_log_ei_gradient": q_log_ei_gradient, "log_pi": log_pi}


def map_case(seed):
    draw = np.random.default_rng(1000 + seed)
    n, numbers, categories = int(draw.integers(2, 41)), int(draw.integers(1, 7)), int(draw.integers(0, 3))
    deterministic = bool(seed % 4 == 3)
    x, y = data(draw, n, numbers, categories, float(draw.choice([0, 0.1, 1])), duplicates=seed % 10 == 5)
    if seed % 25 == 7:
        y = np.zeros(n)  # a constant objective
    is_categorical = np.array([False] * numbers + [True] * categories)
    found = gp.fit_kernel_params(x, y, is_categorical, prior.default_log_prior, prior.DEFAULT_MINIMUM_NOISE_VAR, deterministic)
    return {"tolerance": 1e-3, "categories": categories, "deterministic": deterministic, "points": x.tolist(), "targets": y.tolist(),
            "loss": loss(found)}


def standard_log_ei():
    z = [-1e6, -1e4, -1e3, -100, -40, -25.1, -25, -24.9, -10, -3, -1, 0, 1, 5, 30]
    of = lambda f: f(torch.tensor(z, dtype=torch.float64)).tolist()
    p = [1e-300, 1e-20, 1e-9, 0.001, 0.07, 0.0749, 0.3, 0.5, 0.7, 0.925, 0.95, 0.999, 1 - 1e-9]
    return {"tolerance": 1e-12, "z": z, "log_ei": of(acqf.standard_logei), "log_cdf": of(torch.special.log_ndtr), "p": p,
            "quantile": scipy.special.ndtri(p).tolist()}


text = json.dumps({"optuna": optuna.__version__, "normal": standard_log_ei(), "posteriors": [posterior_case(s) for s in range(40)],
                   "maps": [map_case(s) for s in range(100)]})
for key in ('{"tolerance"', '"maps"'):
    text = text.replace(key, "\n" + key)
Path(__file__).with_name("golden.json").write_text(text + "\n")
