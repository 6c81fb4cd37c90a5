"""Drives Ray Tune's AsyncHyperBandScheduler without a cluster, over random report sequences. Used by make_golden.py beside this
file and by tests/parity/test_tune_asha.py.

A sequence is a list of events: [trial, t, value], a report of the metric ("nan", "inf" and "-inf" are texts), or
[trial, "end", state], the end of the trial after its last report, where state is complete, pruned or failed.
"""

import math
import random
import types

from ray.tune.schedulers.async_hyperband import AsyncHyperBandScheduler

NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def number(value):
    return NAMES.get(value, value)


class RayAsha:
    """Stub trials around Ray's scheduler. Answers "C" or "S", as the controller would see it."""

    def __init__(self, options, mode, bracket_of=None):
        self.scheduler = AsyncHyperBandScheduler(time_attr="t", metric="m", mode=mode, **options)
        self.bracket_of = bracket_of
        self.last = {}

    def report(self, trial, t, value):
        stub = types.SimpleNamespace(trial_id=str(trial))
        if trial not in self.last:
            self.scheduler.on_trial_add(None, stub)
            if self.bracket_of is not None:  # instead of numpy's global generator
                self.scheduler._trial_info[stub.trial_id] = self.scheduler._brackets[self.bracket_of(trial)]
        self.last[trial] = {"t": t, "m": number(value)}
        return {"CONTINUE": "C", "STOP": "S"}[self.scheduler.on_trial_result(None, stub, self.last[trial])]

    def end(self, trial, state):
        # TuneController.stop_trial tells of every end but an error's, whoever decided it.
        if state != "failed":
            self.scheduler.on_trial_complete(None, types.SimpleNamespace(trial_id=str(trial)), self.last[trial])

    def rungs(self):
        return [[milestone for milestone, _ in reversed(bracket._rungs)] for bracket in self.scheduler._brackets]


def value_of(draw, quality, t, special):
    """A learning curve with noise; in steps, so that equal values come up."""
    if draw.random() < special:
        return draw.choice(["nan", "nan", "inf", "-inf"])
    return round(quality * (1 - math.exp(-t / 5)) + draw.gauss(0, 0.1), 2)


def sequence(seed, options, mode, trials, special, skips, bracket_of=None):
    """Events of `trials` trials, four at once, and Ray's answers to the reports."""
    draw, ray = random.Random(seed), RayAsha(options, mode, bracket_of)
    events, answers, live, begun = [], [], {}, 0
    while begun < trials or live:
        if begun < trials and len(live) < 4:
            live[begun] = [0, draw.uniform(0, 1)]
            begun += 1
            continue
        trial = draw.choice(sorted(live))
        t = live[trial][0] = live[trial][0] + (draw.randint(1, 9) if draw.random() < skips else 1)
        value = value_of(draw, live[trial][1], t, special)
        events.append([trial, t, value])
        answers.append(ray.report(trial, t, value))
        state = "pruned" if answers[-1] == "S" else None
        if state is None and draw.random() < 0.03:
            state = draw.choice(["complete", "failed"])
        if state is None and t > 3 * options["max_t"]:  # without stop_last_trials only the rule stops anyone
            state = "complete"
        if state is not None:
            events.append([trial, "end", state])
            ray.end(trial, state)
            del live[trial]
    return events, "".join(answers)
