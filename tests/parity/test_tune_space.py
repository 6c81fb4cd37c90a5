"""Search spaces of muster::tune beside ray.tune's and Optuna's: distributions of every domain (Kolmogorov-Smirnov, chi-square),
expressions, and the order of grids. All seeds are fixed."""

import json
import math
import random

import numpy as np
import optuna
import pytest
from ray import tune
from ray.tune.search.variant_generator import generate_variants
from scipy import stats

N = 30000
LEAST_P = 1e-3
RAY = {name: getattr(tune, name) for name in
       ["uniform", "loguniform", "quniform", "qloguniform", "randint", "qrandint", "lograndint", "qlograndint", "randn", "qrandn"]}
RAY["choice"] = lambda *values: tune.choice(list(values))

optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture
def ours(program, run):
    twin = program("tune_space_twin")

    def draws(domain, count=N, seed=11):
        return [json.loads(line) for line in run(twin, domain, count, seed).splitlines()]

    return draws


def theirs_ray(text, count=N, seed=5):
    return [float(value) for value in eval(text, dict(RAY)).sample(size=count, random_state=np.random.RandomState(seed))]


def theirs_optuna(distribution, count=N, seed=5):
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.create_study(sampler=sampler)
    trial = optuna.trial.FrozenTrial(0, optuna.trial.TrialState.RUNNING, None, None, None, {}, {}, {}, {}, {}, 0)
    return [sampler.sample_independent(study, trial, "x", distribution) for _ in range(count)]


def same_masses(a, b):
    """p of the hypothesis that two samples of discrete values are of one distribution."""
    a, b = ([round(float(value), 9) for value in sample] for sample in (a, b))
    values = sorted(set(a) | set(b))
    table = np.array([[sample.count(value) for value in values] for sample in (a, b)])
    rare = table.sum(axis=0) < 40
    if rare.any():
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    else:
        assert set(a) == set(b)
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("domain", ["uniform(-2, 5)", "uniform(1e6, 1e6 + 1)", "loguniform(1e-4, 1e-1)", "loguniform(0.5, 3000)",
                                    "randn(0, 1)", "randn(-3, 0.01)"])
def test_continuous_domains_are_rays(ours, domain):
    assert stats.ks_2samp(ours(domain), theirs_ray(domain)).pvalue > LEAST_P


@pytest.mark.parametrize("domain", [
    "choice(2, 4, 8, 16)", "quniform(0, 1, 0.25)", "quniform(-3, 3, 1)", "quniform(0, 0.3, 0.1)", "qloguniform(1, 5, 1)",
    "qloguniform(0.01, 0.1, 0.01)", "randint(2, 9)", "randint(-3, 4)", "qrandint(0, 10, 3)", "qrandint(-7, 8, 3)", "qrandint(0, 10, 1)",
    "qrandint(0, 10, 2)", "lograndint(1, 10)", "lograndint(100, 109)", "qlograndint(1, 100, 10)", "qlograndint(8, 64, 8)",
    "qrandn(0, 1, 0.5)"])
def test_discrete_domains_are_rays(ours, domain):
    assert same_masses(ours(domain), theirs_ray(domain)) > LEAST_P


@pytest.mark.parametrize("domain, distribution", [
    ("uniform(-2, 5)", optuna.distributions.FloatDistribution(-2, 5)),
    ("loguniform(1e-4, 1e-1)", optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True))])
def test_continuous_domains_are_optunas(ours, domain, distribution):
    assert stats.ks_2samp(ours(domain), theirs_optuna(distribution)).pvalue > LEAST_P


@pytest.mark.parametrize("domain, distribution", [
    ("choice(2, 4, 8, 16)", optuna.distributions.CategoricalDistribution([2, 4, 8, 16])),
    ("randint(2, 9)", optuna.distributions.IntDistribution(2, 8)),
    ("qrandint(-6, 6, 3)", optuna.distributions.IntDistribution(-6, 6, step=3))])
def test_discrete_domains_are_optunas(ours, domain, distribution):
    assert same_masses(ours(domain), theirs_optuna(distribution)) > LEAST_P


def test_another_distribution_is_seen(ours):
    assert stats.ks_2samp(ours("uniform(-2, 5)"), theirs_ray("uniform(-2, 5.3)")).pvalue < LEAST_P
    assert same_masses(ours("quniform(0, 1, 0.25)"), theirs_optuna(optuna.distributions.FloatDistribution(0, 1, step=0.25))) < LEAST_P


@pytest.mark.parametrize("expression, python", [
    ("2 ** randint(2, 9)", lambda rng: 2 ** rng.integers(2, 9)),
    ("round(uniform(0, 1) * randint(1, 5))", lambda rng: round(rng.uniform(0, 1) * rng.integers(1, 5))),
    ("max(randint(0, 5), randint(0, 5)) % 3", lambda rng: max(rng.integers(0, 5), rng.integers(0, 5)) % 3)])
def test_expressions_have_the_distribution_of_sample_from(ours, expression, python):
    rng = np.random.default_rng(3)
    domain = tune.sample_from(lambda _: int(python(rng)))
    assert same_masses(ours(f"sample_from({expression})"), [domain.sample(config={}) for _ in range(N)]) > LEAST_P


def nested(flat):
    out = {}
    for name, values in flat.items():
        *groups, last = name.split(".")
        at = out
        for group in groups:
            at = at.setdefault(group, {})
        at[last] = tune.grid_search(values)
    return out


@pytest.mark.parametrize("seed", range(8))
def test_random_grids_have_rays_order(program, run, seed):
    draw = random.Random(seed)
    names = draw.sample(["a", "b", "c.x", "c.a", "d.e.f", "d_e", "Z", "m1", "m10", "m2"], draw.randint(1, 4))
    flat = {name: draw.sample([1, 2, 0.5, "x", "y", True], draw.randint(1, 3)) for name in names}
    samples = draw.randint(1, 3)
    lines = run(program("tune_space_twin"), "--grid", json.dumps(flat), samples).splitlines()
    ray = [config for _ in range(samples) for _, config in generate_variants(nested(flat))]
    assert [json.loads(line) for line in lines] == ray
    assert len(ray) == samples * math.prod(len(values) for values in flat.values())
