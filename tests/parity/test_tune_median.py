"""Our median stopping beside Ray Tune's rule and Optuna's pruner on random report sequences."""

import json
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "golden" / "tune_median"))
import peers  # noqa: E402


def answers(program, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([program("tune_search_twin"), "schedule"], input=lines, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return ["".join(json.loads(line)) for line in done.stdout.splitlines()]


def compare(program, make, drawn_options, rule, sequences):
    requests, expected = [], []
    for seed in range(sequences):
        draw = random.Random(seed)
        options, mode = drawn_options(draw), draw.choice(["min", "max"])
        events, verdicts = peers.sequence(seed, make(options, mode), mode, draw.choice([4, 20, 50]), draw.choice([0, 0, 0.05, 0.3]),
                                          draw.choice([0, 0.3, 1]), draw.choice([5, 12, 30]), rule == "ray")
        spec = f"median:rule={rule}," + ",".join(f"{name}={str(value).lower()}" for name, value in options.items())
        requests.append({"spec": spec.rstrip(","), "mode": mode, "seed": 1, "events": events})
        expected.append(verdicts)
    for request, ours, theirs in zip(requests, answers(program, requests), expected):
        assert ours == theirs, request
    return "".join(expected)


def test_every_verdict_is_rays(program):
    def options(draw):
        return {"grace_period": draw.choice([1, 1, 2, 5]), "min_samples_required": draw.choice([1, 2, 3, 3, 8]),
                "hard_stop": draw.random() < 0.8}

    verdicts = compare(program, peers.RayMedian, options, "ray", 300)
    assert verdicts.count("C") > 10000 and verdicts.count("S") > 1000 and verdicts.count("P") > 200


def test_every_verdict_is_optunas(program):
    """Without infinities: beside one, numpy's percentile is none for the one mode and a number for the other."""
    def options(draw):
        return {"percentile": draw.choice([50.0, 50.0, 25.0, 75.0, 10.0, 0.0, 100.0]), "n_startup_trials": draw.choice([0, 1, 5, 5]),
                "n_warmup_steps": draw.choice([0, 0, 3]), "interval_steps": draw.choice([1, 1, 2, 5]),
                "n_min_trials": draw.choice([1, 1, 3])}

    verdicts = compare(program, peers.OptunaPercentile, options, "optuna", 80)
    assert verdicts.count("C") > 3000 and verdicts.count("S") > 300
