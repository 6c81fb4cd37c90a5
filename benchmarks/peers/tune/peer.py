"""The Python side of benchmarks/peers/tune: one study that does nothing, under one tuner.

    peer.py optuna|ray|syne CASE --trials N [--folder DIR] [--noop PROGRAM]

Prints one JSON object: seconds from the start of the study to its end (imports, Ray's own start and its end left out),
and by how much the resident set's peak is above what it was before. Each tuner gets its fastest documented setting.

CASE: trials     N functions, one report each
      reports    N functions, 20 reports each
      process    N runs of PROGRAM, which prints one tagged line; two at once
      memory     as trials, with the study held in memory at the end
Optuna also: sqlite, journal (reports, on disk). Ray also: -reuse behind the case (reuse_actors=True), -files (its loggers on).
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from process_status import status_mib

REPORTS = 20
warnings.filterwarnings("ignore")


def timed(study):
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before, start = status_mib("VmRSS"), time.perf_counter()
    kept = study()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "rss_mib": status_mib("VmHWM") - before}), flush=True)
    return kept


# ---- Optuna ----

def optuna_storage(optuna, case, folder):
    if case == "sqlite":
        return f"sqlite:///{folder}/optuna.db"
    if case == "journal":
        backend = optuna.storages.journal.JournalFileBackend(f"{folder}/optuna.log")
        return optuna.storages.JournalStorage(backend)
    return None


def run_optuna(case, trials, folder, noop):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    reports = {"trials": 1, "memory": 1}.get(case, REPORTS)

    def function(trial):
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.suggest_int("l1", 2, 8)
        trial.suggest_categorical("batch_size", [2, 4, 8, 16])
        for step in range(1, reports + 1):
            trial.report(lr, step)
        return lr

    def process(trial):
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        done = subprocess.run([noop, str(lr)], capture_output=True, check=True, text=True)
        return json.loads(done.stdout.split(":", 1)[1])["loss"]

    def study():
        sampler = optuna.samplers.RandomSampler(seed=0)
        study = optuna.create_study(storage=optuna_storage(optuna, case, folder), sampler=sampler, pruner=optuna.pruners.NopPruner())
        study.optimize(process if case == "process" else function, n_trials=trials, n_jobs=2 if case == "process" else 1)
        return study

    study = timed(study)
    assert len(study.get_trials(deepcopy=False)) == trials


# ---- Ray Tune ----

def run_ray(case, trials, folder, noop):
    os.environ |= {"RAY_AIR_NEW_OUTPUT": "0", "TUNE_WARN_THRESHOLD_S": "100", "RAY_TRAIN_V2_ENABLED": "0"}
    case, *settings = case.split("-")
    if "files" not in settings:
        os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    import ray
    from ray import tune
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=True, logging_level=logging.ERROR, log_to_driver=False)
    reports = REPORTS if case == "reports" else 1

    def function(config):
        for _ in range(reports):
            tune.report({"loss": config["lr"]})

    def process(config):
        done = subprocess.run([noop, str(config["lr"])], capture_output=True, check=True, text=True)
        tune.report(json.loads(done.stdout.split(":", 1)[1]))

    def study():
        return tune.run(process if case == "process" else function, num_samples=trials, verbose=0, metric="loss", mode="min",
                        config={"lr": tune.loguniform(1e-4, 1e-1), "l1": tune.randint(2, 9), "batch_size": tune.choice([2, 4, 8, 16])},
                        resources_per_trial={"cpu": 1}, reuse_actors="reuse" in settings, storage_path=str(folder))

    result = timed(study)
    assert len(result.trials) == trials
    ray.shutdown()


# ---- Syne Tune ----

def run_syne(case, trials, folder, noop):
    os.environ["SYNETUNE_FOLDER"] = str(folder)
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend
    from syne_tune.config_space import choice, loguniform, randint
    from syne_tune.optimizer.baselines import RandomSearch
    logging.getLogger().setLevel(logging.ERROR)
    if case != "process":
        raise SystemExit("Syne Tune's trials are processes")
    # Its local backend runs BINARY SCRIPT --lr 0.1 …: the program takes the place of the script, /usr/bin/env that of Python.
    space = {"lr": loguniform(1e-4, 1e-1), "l1": randint(2, 8), "batch_size": choice([2, 4, 8, 16])}
    scheduler = RandomSearch(space, metrics=["loss"], do_minimize=True, random_seed=0)
    backend = LocalBackend(noop, binary="/usr/bin/env")

    def study():
        tuner = Tuner(backend, scheduler, StoppingCriterion(max_num_trials_finished=trials), n_workers=2, sleep_time=0.01,
                      print_update_interval=1e9, results_update_interval=1e9, save_tuner=False)
        tuner.run()
        return tuner

    tuner = timed(study)
    assert len(tuner.trial_backend.trial_ids) >= trials


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tuner", choices=["optuna", "ray", "syne"])
    parser.add_argument("case")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--noop", default="")
    arguments = parser.parse_args()
    {"optuna": run_optuna, "ray": run_ray, "syne": run_syne}[arguments.tuner](
        arguments.case, arguments.trials, arguments.folder.resolve(), arguments.noop)


if __name__ == "__main__":
    main()
