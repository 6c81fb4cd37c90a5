"""Order and counts of our variants (grid_search, points to evaluate, constant grids) beside Ray Tune's variant generator."""

import json
import random
import subprocess

import pytest
from ray import tune
from ray.tune.search.basic_variant import _TrialIterator
from ray.tune.search.variant_generator import _count_variants


def ray_configs(case):
    """The configs that Ray would start, in its order; drawn values are theirs."""

    def domain(name):
        values = case["grid"].get(name)
        return tune.grid_search(values) if values is not None else tune.uniform(0, 1)

    config = {}
    for name in case["names"]:
        at = config
        *path, last = name.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = domain(name)
    points = [nested(point) for point in case["points"]]
    spec = {"run": "stub", "config": config, "num_samples": case["num_samples"]}
    iterator = _TrialIterator("", case["num_samples"], spec, points_to_evaluate=points,
                              constant_grid_search=case["constant_grid_search"], random_state=None)
    iterator.create_trial = lambda resolved, spec: spec["config"]
    return _count_variants(spec, points), list(iterator)


def nested(point):
    out = {}
    for name, value in point.items():
        at = out
        *path, last = name.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return out


def flat(config, prefix=""):
    out = {}
    for name, value in config.items():
        out |= flat(value, prefix + name + ".") if isinstance(value, dict) else {prefix + name: value}
    return out


def drawn_case(seed):
    draw = random.Random(seed)
    names = draw.sample(["lr", "a", "b", "a-b", "net.width", "net.depth", "net-x", "opt.lr", "z", "B"], draw.randint(1, 5))
    grid = {name: draw.sample([1, 2, 3, 4.5, "x", "y", True], draw.randint(1, 3)) for name in names if draw.random() < 0.6}
    points = []
    for _ in range(draw.choice([0, 0, 1, 2, 3])):
        point = {name: draw.choice(grid[name]) if name in grid else 0.25 for name in names if draw.random() < 0.6}
        if point:
            points.append(point)
    return {"names": names, "grid": grid, "points": points, "num_samples": draw.randint(1, 4),
            "constant_grid_search": draw.random() < 0.3}


def literal(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def shape(configs, case):
    """What can be compared: fixed values as they are, drawn ones by which trials share them."""
    seen, out = {}, []
    for config in configs:
        row = {}
        for name, value in sorted(flat(config).items()):
            fixed = name in case["grid"] or value == 0.25
            row[name] = value if fixed else f"draw {seen.setdefault((name, value), len(seen))}"
        out.append(row)
    return out


@pytest.mark.parametrize("block", range(4))
def test_grids_and_points_come_in_rays_order(block, program):
    cases = [drawn_case(100 * block + i) for i in range(60)]
    requests = [case | {"space": {name: f"grid_search({', '.join(map(literal, case['grid'][name]))})" if name in case["grid"]
                                  else "uniform(0, 1)" for name in case["names"]}} for case in cases]
    done = subprocess.run([program("tune_search_twin"), "variants"], input="".join(json.dumps(r) + "\n" for r in requests),
                          text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        ours = json.loads(line)
        count, theirs = ray_configs(case)
        assert ours["trials"] == count == len(theirs), case
        assert shape(ours["configs"], case) == shape(theirs, case), case
