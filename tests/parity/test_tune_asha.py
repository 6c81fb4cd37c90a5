"""Our ASHA beside Ray Tune's on random report sequences (stopping type, ray_compat), and beside the paper's Algorithm 2 written
down plainly (promotion type)."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "golden" / "tune_asha"))
import ray_asha  # noqa: E402


@pytest.fixture
def twin(program):
    """twin(command, requests) is the list of answers of tests/parity/tune_search_twin.cpp."""

    def ask(command, requests):
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        done = subprocess.run([program("tune_search_twin"), command], input=lines, text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask


def drawn_options(draw):
    grace = draw.choice([1, 1, 1, 2, 3, 10])
    return {"max_t": grace * draw.choice([1, 2, 5, 8, 9, 10, 16, 27, 50, 64, 81]), "grace_period": grace,
            "reduction_factor": draw.choice([2, 2, 3, 3, 4, 4, 10, 1.5, 2.5]), "stop_last_trials": draw.random() < 0.8}


def spec(options, **more):
    return "asha:" + ",".join(f"{name}={str(value).lower()}" for name, value in (options | more).items())


def test_every_verdict_is_rays_on_random_report_sequences(twin):
    requests, expected = [], []
    for seed in range(400):
        draw = random.Random(seed)
        options, mode = drawn_options(draw), draw.choice(["min", "max"])
        events, answers = ray_asha.sequence(seed, options, mode, draw.choice([3, 20, 60]), draw.choice([0, 0, 0.05, 0.3]),
                                            draw.choice([0, 0.3, 1]))
        requests.append({"spec": spec(options, ray_compat=True), "mode": mode, "seed": 1, "events": events})
        expected.append(list(answers))
    for request, ours, theirs in zip(requests, twin("schedule", requests), expected):
        assert ours == theirs, request
    verdicts = "".join("".join(answers) for answers in expected)
    assert verdicts.count("C") > 10000 and verdicts.count("S") > 3000


def test_every_verdict_is_rays_with_brackets_when_trials_are_in_the_same_ones(twin):
    cases = []
    for seed in range(60):
        draw = random.Random(1000 + seed)
        options = {"max_t": 100, "grace_period": 1, "reduction_factor": draw.choice([2, 3, 4]), "brackets": draw.choice([2, 3, 4])}
        rungs = [len(ladder) for ladder in ray_asha.RayAsha(options, "max").rungs()]
        cases.append((seed, options, {"rungs": rungs, "seed": seed, "trials": 40}))
    brackets = twin("bracket", [case[2] for case in cases])
    assert {bracket for trials in brackets for bracket in trials} == {0, 1, 2, 3}
    for (seed, options, _), bracket in zip(cases, brackets):
        events, answers = ray_asha.sequence(seed, options, "min", 40, 0.05, 0.3, bracket_of=bracket.__getitem__)
        request = {"spec": spec(options, ray_compat=True), "mode": "min", "seed": seed, "events": events}
        assert twin("schedule", [request]) == [list(answers)], request


def test_the_rungs_are_rays_wherever_its_logarithms_round(twin):
    requests = [{"max_t": max_t, "grace_period": grace, "reduction_factor": eta, "brackets": 3}
                for max_t in [1, 2, 8, 9, 10, 27, 64, 81, 100, 125, 128, 243, 256, 625, 729, 1000, 1024, 2187, 6561, 10000]
                for grace in [1, 2, 3, 5, 7] for eta in [2, 3, 4, 5, 10, 1.5, 2.5] if grace <= max_t]
    for request, ours in zip(requests, twin("rungs", requests)):
        assert ours == ray_asha.RayAsha(request, "max").rungs(), request


class PaperAsha:
    """Algorithm 2 of Li et al. 2020, with lists and sorting. Rung k has resource r * eta^k; R is the last one, where a trial is
    done. A score is larger for a better trial; of equal ones the earlier is better."""

    def __init__(self, r, R, eta):
        self.rungs, self.eta, self.R = [], eta, R
        while r * eta ** len(self.rungs) < R:
            self.rungs.append({"resource": r * eta ** len(self.rungs), "results": [], "promoted": set()})
        self.waiting = set()

    def report(self, trial, t, score):
        if t >= self.R:
            return "S"
        for k, rung in enumerate(self.rungs):
            if rung["resource"] == t:
                rung["results"].append((score, trial))
                self.waiting.add((trial, k))
                return "P"
        return "C"

    def get_job(self):
        for k in reversed(range(len(self.rungs))):
            rung = self.rungs[k]
            ranked = sorted(rung["results"], key=lambda result: -result[0])  # a stable sort
            candidates = [trial for _, trial in ranked[: math.floor(len(ranked) / self.eta)]]
            promotable = [trial for trial in candidates if trial not in rung["promoted"] and (trial, k) in self.waiting]
            if promotable:
                rung["promoted"].add(promotable[0])
                self.waiting.discard((promotable[0], k))
                return promotable[0]
        return None

    def end(self, trial):
        self.waiting = {(other, k) for other, k in self.waiting if other != trial}


def promotion_sequence(seed, r, R, eta, workers, trials):
    """Workers ask for jobs and train: (events, answers of the paper's algorithm)."""
    draw, paper = random.Random(seed), PaperAsha(r, R, eta)
    quality = [draw.uniform(0, 1) for _ in range(trials)]
    events, answers, running, t, begun = [], [], [], [0] * trials, 0
    while True:
        if len(running) < workers:
            events.append(["promote"])
            answers.append(paper.get_job())
            if answers[-1] is not None:
                running.append(answers[-1])
                continue
            if begun < trials:
                running.append(begun)
                begun += 1
                continue
        if not running:
            return events, answers
        trial = draw.choice(running)
        t[trial] += 1
        score = round(quality[trial] * (1 - math.exp(-t[trial] / 5)) + draw.gauss(0, 0.05), 2)
        events.append([trial, t[trial], score])
        answers.append(paper.report(trial, t[trial], score))
        if answers[-1] == "P":
            events.append([trial, "paused"])
        if answers[-1] == "S" or (answers[-1] == "C" and draw.random() < 0.01):
            events.append([trial, "end", "complete" if answers[-1] == "S" else "failed"])
            paper.end(trial)
        elif answers[-1] == "C":
            continue
        running.remove(trial)


def test_promotion_is_the_papers_algorithm(twin):
    requests, expected = [], []
    for seed in range(150):
        draw = random.Random(seed)
        eta = draw.choice([2, 3, 4])
        r, R = draw.choice([(1, eta ** 3), (1, eta ** 2), (2, 2 * eta ** 2), (1, 10), (3, 20)])
        events, answers = promotion_sequence(seed, r, R, eta, draw.choice([1, 2, 4, 9]), draw.choice([5, 30, 80]))
        options = {"max_t": R, "grace_period": r, "reduction_factor": eta, "variant": "promotion"}
        requests.append({"spec": spec(options), "mode": "max", "seed": 1, "events": events})
        expected.append(answers)
    for request, ours, theirs in zip(requests, twin("schedule", requests), expected):
        assert ours == theirs, request["spec"]
    flat = [answer for answers in expected for answer in answers]
    assert sum(isinstance(answer, int) for answer in flat) > 1000 and flat.count("S") > 200
