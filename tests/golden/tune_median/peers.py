"""Drives Ray Tune's MedianStoppingRule and Optuna's PercentilePruner over report sequences, without a cluster or a study file.
Used by make_golden.py beside this file and by tests/parity/test_tune_median.py.

A sequence is a list of events: [trial, t, value], a report of the metric ("nan", "inf" and "-inf" are texts), or
[trial, "end", state], the end of the trial after its last report, where state is complete, pruned or failed.
"""

import logging
import math
import random
import types

import optuna
from ray.tune.schedulers.median_stopping_rule import MedianStoppingRule

NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
STATES = {"complete": optuna.trial.TrialState.COMPLETE, "pruned": optuna.trial.TrialState.PRUNED,
          "failed": optuna.trial.TrialState.FAIL}
logging.getLogger("ray").setLevel(logging.ERROR)
optuna.logging.set_verbosity(optuna.logging.ERROR)


def number(value):
    return NAMES.get(value, value)


class RayMedian:
    """Answers "C", "S" or (without hard_stop) "P", as the controller would see it. The controller's call at the end of a trial is left
    out: with it, Ray counts the last report twice in the trial's mean."""

    def __init__(self, options, mode):
        self.rule = MedianStoppingRule(time_attr="t", metric="m", mode=mode, **options)
        self.controller = types.SimpleNamespace(get_live_trials=lambda: [])  # nobody waits for a slot
        self.trials = {}

    def report(self, trial, t, value):
        stub = self.trials.setdefault(trial, Stub(str(trial)))
        return self.rule.on_trial_result(self.controller, stub, {"t": t, "m": number(value)})[0]

    def end(self, trial, state):
        pass


class Stub:
    def __init__(self, trial_id):
        self.trial_id = trial_id


class OptunaPercentile:
    def __init__(self, options, mode):
        self.study = optuna.create_study(
            direction={"min": "minimize", "max": "maximize"}[mode], sampler=optuna.samplers.RandomSampler(seed=0),
            pruner=optuna.pruners.PercentilePruner(**{"percentile": 50.0, **options}))
        self.trials = {}

    def report(self, trial, t, value):
        if trial not in self.trials:
            self.trials[trial] = self.study.ask()
        self.trials[trial].report(number(value), t)
        return "S" if self.trials[trial].should_prune() else "C"

    def end(self, trial, state):
        values = 0.0 if state == "complete" else None
        self.study.tell(self.trials[trial], values, state=STATES[state])


def value_of(draw, quality, t, special, is_first):
    """A learning curve with noise; in steps, so that equal values come up. What is not finite is worse than any, but for NaN, and
    is no first report: of these Ray thinks otherwise, see schedulers/median.cpp."""
    if not is_first and draw.random() < special:
        return draw.choice(["nan", "nan", "worst"])
    return round(quality * (1 - math.exp(-t / 5)) + draw.gauss(0, 0.1), 2)


def sequence(seed, peer, mode, trials, special, skips, last_t=12, infinities=True):
    """Events of `trials` trials, four at once, and the peer's answers to the reports."""
    draw = random.Random(seed)
    events, answers, live, begun = [], [], {}, 0
    while begun < trials or live:
        if begun < trials and len(live) < 4:
            live[begun] = [0, draw.uniform(0, 1)]
            begun += 1
            continue
        trial = draw.choice(sorted(live))
        is_first = live[trial][0] == 0
        t = live[trial][0] = live[trial][0] + (draw.randint(1, 4) if draw.random() < skips else 1)
        value = value_of(draw, live[trial][1], t, special, is_first)
        if value == "worst":
            value = "nan" if not infinities else "-inf" if mode == "max" else "inf"
        events.append([trial, t, value])
        answers.append(peer.report(trial, t, value))
        state = "pruned" if answers[-1] == "S" else None
        if state is None and draw.random() < 0.02:
            state = draw.choice(["complete", "failed", "pruned"])
        if state is None and t >= last_t:
            state = "complete"
        if state is not None:
            events.append([trial, "end", state])
            peer.end(trial, state)
            del live[trial]
    return events, "".join(answers)
