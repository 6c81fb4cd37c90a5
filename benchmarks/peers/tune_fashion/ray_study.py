"""The Ray Tune side of benchmarks/peers/tune_fashion: the same study, its trials `muster train` as a subprocess.

    ray_study.py --muster build/bin/muster --configs configs.json --max-t 10 --data-dir DIR --folder DIR

As a careful Ray user writes it: ASHA with the same settings, two trials at once, one core each; a trial reads the program's
progress lines from a pipe (MUSTER_PROGRESS_FD) and reports each validation; a stopped trial's program is killed. Prints one
JSON object: seconds of tune.run, and for every trial how many epochs Ray saw of it and the last accuracy.
"""

import argparse
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from study import train_command  # noqa: E402


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def validations(command, environment):
    """(loss, accuracy) after each epoch of the program."""
    read_end, write_end = os.pipe()
    with subprocess.Popen(command, env=os.environ | environment | {"MUSTER_PROGRESS_FD": str(write_end)}, pass_fds=[write_end],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent) as process:
        os.close(write_end)
        try:
            with os.fdopen(read_end) as lines:
                for event in map(json.loads, lines):
                    if event["phase"] == "validate" and event["step"] == event["steps"]:
                        yield event["loss"], event["accuracy"]
        finally:
            process.kill()


def main():
    parser = argparse.ArgumentParser()
    for name in ("muster", "configs", "data-dir", "folder"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--max-t", type=int, required=True)
    parser.add_argument("--reuse-actors", action="store_true")
    arguments = parser.parse_args()
    configs = json.loads(arguments.configs.read_text())
    muster, data_dir, max_t, output = arguments.muster.resolve(), arguments.data_dir, arguments.max_t, arguments.folder.resolve()

    os.environ |= {"RAY_AIR_NEW_OUTPUT": "0"}
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    from ray.tune.search.basic_variant import BasicVariantGenerator
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)

    def trial(config):
        folder = output / tune.get_context().get_trial_id()
        command = [*train_command(muster, config, data_dir, max_t), "--output", str(folder)]
        for loss, accuracy in validations(command, {"OMP_NUM_THREADS": "1"}):
            tune.report({"loss": loss, "accuracy": accuracy})

    start = time.perf_counter()
    result = tune.run(
        trial, num_samples=len(configs), verbose=0, metric="accuracy", mode="max", config={"l1": 0, "lr": 0.0, "batch_size": 0},
        search_alg=BasicVariantGenerator(points_to_evaluate=configs), resources_per_trial={"cpu": 1},
        reuse_actors=arguments.reuse_actors, storage_path=str(output / "ray"), raise_on_failed_trial=False,
        scheduler=ASHAScheduler(max_t=max_t, grace_period=1, reduction_factor=2))
    seconds = time.perf_counter() - start
    trials = [{"epochs": one.last_result.get("training_iteration", 0), "last": one.last_result.get("accuracy")}
              for one in result.trials]
    print(json.dumps({"seconds": seconds, "trials": trials}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
