"""Drives Ray Tune's PopulationBasedTraining without a cluster. Where it draws random numbers it is given those that
muster/tune/schedule/pbt/explorer.cpp draws (Philox 4x32-10 by seed, trial and count of copies), so that its choices can be compared.
Used by make_golden.py beside this file and by tests/parity/test_tune_pbt.py.
"""

import logging
import math
import random
import types

from ray import tune
from ray.tune.schedulers import pbt

logging.getLogger("ray").setLevel(logging.ERROR)
MASK, STREAM = 0xFFFFFFFF, 0xB07
OPTIMIZERS = ["adam", "adamw", "rmsprop", "sgd"]


def philox(counter, key):
    """Salmon et al. 2011, ten rounds."""
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & MASK, (a >> 32) ^ counter[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter


def chances(seed, trial, copies, place):
    bits = philox([trial & MASK, trial >> 32, STREAM, (copies << 12 | place) & MASK], [seed & MASK, seed >> 32])
    unit = lambda high, low: ((high << 32 | low) >> 11) * 2.0 ** -53
    return unit(bits[1], bits[0]), unit(bits[3], bits[2])


class Given:
    """Stands for the module `random` in Ray's pbt.py. Resampling is left to others: its draws are another function's."""

    def __init__(self, seed):
        self.seed, self.trial, self.copies, self.place = seed, 0, 0, 0

    def begin(self, trial, copies):
        self.trial, self.copies, self.place = trial, copies, 0

    def random(self):
        self.place += 1
        return chances(self.seed, self.trial, self.copies, self.place)[0]

    def choice(self, options):
        first, second = chances(self.seed, self.trial, self.copies, self.place)
        if isinstance(options[0], Trial):
            return options[int(first * len(options))]
        up = second < 0.5
        return max(options) if up else min(options)  # of [-1, 1] and (1.2, 0.8)


class Trial:
    def __init__(self, number, config):
        self.number, self.trial_id, self.config, self.status = number, str(number), config, "RUNNING"
        self.experiment_tag, self.local_dir, self.copies, self.donor = "", "", 0, None
        self.checkpoint = types.SimpleNamespace(of=self)
        self.temporary_state = types.SimpleNamespace(saving_to=None)
        checkpoints = types.SimpleNamespace(checkpoint_config=types.SimpleNamespace(num_to_keep=None))
        self.run_metadata = types.SimpleNamespace(checkpoint_manager=checkpoints)
        self.evaluated_params = {}

    def is_finished(self):
        return self.status in ("TERMINATED", "ERROR")

    def set_experiment_tag(self, tag):
        self.experiment_tag = tag

    def set_config(self, config):
        self.config = config


class RayPbt:
    """A population under Ray's scheduler. A report is answered "C", or [donor, config], a copy, or (synch) "P" and later a map of
    copies."""

    def __init__(self, options, mode, seed, configs):
        self.given = Given(seed)
        pbt.random = self.given
        mutations = {"lr": tune.uniform(1e-12, 1e12), "optimizer": OPTIMIZERS, "units": tune.randint(1, 1000000000)}
        self.scheduler = pbt.PopulationBasedTraining(
            time_attr="t", metric="m", mode=mode, hyperparam_mutations=mutations, resample_probability=0, log_config=False, **options)
        self.trials = [Trial(number, config) for number, config in enumerate(configs)]
        self.controller = types.SimpleNamespace(
            search_alg=None, get_trials=lambda: self.trials,
            get_live_trials=lambda: [trial for trial in self.trials if not trial.is_finished()],
            pause_trial=lambda trial, should_checkpoint: setattr(trial, "status", "PAUSED"),
            _schedule_trial_save=lambda trial, result: trial.checkpoint)
        own = self.scheduler._checkpoint_or_exploit
        self.scheduler._checkpoint_or_exploit = lambda trial, *rest: (self.given.begin(trial.number, trial.copies), own(trial, *rest))
        clone = self.scheduler._exploit
        def exploit(controller, trial, donor):
            clone(controller, trial, donor)
            trial.copies, trial.donor = trial.copies + 1, donor.number
        self.scheduler._exploit = exploit
        for trial in self.trials:
            self.scheduler.on_trial_add(self.controller, trial)

    def taken(self):
        """{trial: [donor, config]} of those who copied since the last call; they run again."""
        copies = {trial.number: [trial.donor, dict(trial.config)] for trial in self.trials if trial.donor is not None}
        for trial in self.trials:
            trial.donor = None
            if trial.number in copies:
                trial.status = "RUNNING"
        return copies

    def report(self, number, t, value):
        """Asynchronous."""
        trial = self.trials[number]
        self.scheduler.on_trial_result(self.controller, trial, {"t": t, "m": value})
        return self.taken().get(number, "C")

    def saved(self, number):
        """Whether the trial has a checkpoint to give: Ray saves one at a report of a trial that is in the upper quantile then."""
        return self.scheduler._trial_state[self.trials[number]].last_checkpoint is not None

    def report_synch(self, number, t, value):
        """"C", "P", or the copies that are made when the last one is there that was waited for. Those that Ray would run then run."""
        trial = self.trials[number]
        answer = self.scheduler.on_trial_result(self.controller, trial, {"t": t, "m": value})
        if answer == "CONTINUE":
            return "C"
        copies = self.taken()
        trial.status = "PAUSED"
        for other in self.trials:
            is_due = self.scheduler._trial_state[other].last_train_time < self.scheduler._next_perturbation_sync
            if not other.is_finished() and (is_due or other.status == "PAUSED"):
                other.status = "RUNNING" if is_due else "PAUSED"
        return {str(number): copy for number, copy in copies.items()} or "P"

    def end(self, number):
        self.trials[number].status = "TERMINATED"


def configs_of(draw, count):
    return [{"lr": round(draw.uniform(0.5, 2), 3), "optimizer": draw.choice(OPTIMIZERS), "units": draw.randint(1000, 9000)}
            for _ in range(count)]


def sequence(seed, options, mode, count, reports):
    """{"configs", "events", "answers", "saved"}: a population whose trials report in turn, at random. A trial that copies goes on behind
    both."""
    draw = random.Random(seed)
    configs = configs_of(draw, count)
    ray = RayPbt(options, mode, seed, [dict(config) for config in configs])
    t, alive, waiting, events, answers, saved = [0] * count, set(range(count)), set(), [], [], []
    for _ in range(reports):
        if not alive - waiting:
            break
        number = draw.choice(sorted(alive - waiting))
        # With leaps a trial may come to the time after the next, and Ray changes one that it does not run.
        t[number] += 1 if options.get("synch") else draw.choice([1, 1, 1, 2, 3])
        value = round(math.log1p(t[number]) * draw.uniform(0.5, 1.5), 2)
        events.append([number, t[number], value])
        if options.get("synch"):
            answers.append(ray.report_synch(number, t[number], value))
            saved.append(1)  # the upper quantile saves before the lower copies
            waiting = {trial.number for trial in ray.trials if trial.status == "PAUSED"}
            if isinstance(answers[-1], str):
                continue
            copies = {int(copy): donor for copy, (donor, _) in answers[-1].items()}
        else:
            answers.append(ray.report(number, t[number], value))
            saved.append(int(ray.saved(number)))
            copies = {number: answers[-1][0]} if answers[-1] != "C" else {}
        for copy, donor in copies.items():
            t[copy] = max(t[copy], t[donor])
        if not options.get("synch") and len(alive) > 3 and draw.random() < 0.02:
            gone = draw.choice(sorted(alive))
            alive.discard(gone)
            ray.end(gone)
            events.append([gone, "end"])
    return {"configs": configs, "events": events, "answers": answers, "saved": saved}


def quantiles(seed, fraction, count):
    """Ray's lower and upper quantile of trials with scores that come up twice."""
    draw = random.Random(seed)
    ray = RayPbt({"quantile_fraction": fraction}, "max", 0, configs_of(draw, count))
    scores = [round(draw.uniform(0, 1), 1) for _ in range(count)]
    for trial, score in zip(ray.trials, scores):
        ray.scheduler._trial_state[trial].last_score = score
    lower, upper = ray.scheduler._quantiles()
    return {"fraction": fraction, "scores": scores, "lower": [trial.number for trial in lower],
            "upper": [trial.number for trial in upper]}


class Fed:
    """Stands for `random` where what is drawn is said."""

    def __init__(self, up):
        self.up = up

    def random(self):
        return 0.5

    def choice(self, options):
        return max(options) if self.up else min(options)


def explored(domain, value, up, factors):
    """What Ray makes of a value, without resampling."""
    pbt.random = Fed(up)
    config, _ = pbt._explore({"x": value}, {"x": domain}, 0.25, factors, None)
    return config["x"]
