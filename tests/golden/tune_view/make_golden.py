"""What Ray Tune's CLIReporter prints for a few trials: its own code on trials without a cluster.

tests/tune/views/status_view_test.cpp has the same trials. status.txt is a running study, errors.txt one with failures.
"""
import types
from pathlib import Path

from ray.tune.progress_reporter import CLIReporter, _trial_errors_str, _trial_progress_str


def trial(number, status, loc, params, result, failures=0):
    where = dict(zip(("hostname", "pid"), loc.split(":"))) if loc else {}
    one = types.SimpleNamespace(
        trial_id=f"{number:05}", status=status, config=params, evaluated_params=params, last_result=result | {"config": params},
        local_experiment_path="/runs/fashion", error_file=f"/runs/fashion/{number}/error.txt" if failures else None,
        temporary_state=types.SimpleNamespace(location=f"{where['hostname']}:{where['pid']}" if where else ""),
        run_metadata=types.SimpleNamespace(num_failures=failures))
    kind = type("Trial", (types.SimpleNamespace,), {"__str__": lambda self: f"fashion_{self.trial_id}"})
    return kind(**vars(one))


def point(lr, l1, batch_size, name):
    return {"lr": lr, "l1": l1, "batch_size": batch_size, "data.augmentation": name}


def result(iterations, seconds, loss, accuracy):
    return {"training_iteration": iterations, "time_total_s": seconds, "loss": loss, "accuracy": accuracy}


TRIALS = [
    trial(0, "TERMINATED", "", point(0.012345678, 64, 8, "none"), result(10, 12.25, 0.412345678, 0.8712)),
    trial(1, "RUNNING", "node1:4242", point(1e-4, 256, 16, "flip"), result(3, 4.5, 0.6, 0.75)),
    trial(2, "TERMINATED", "", point(0.1, 4, 2, "crop"), result(1, 0.75, float("nan"), 0.1)),
    trial(3, "PENDING", "", point(0.03, 128, 4, "none"), {}),
    trial(4, "PAUSED", "", point(2.5e-05, 16, 4, "none"), result(2, 123.456789, 1234567.0, 0.5)),
    trial(5, "RUNNING", "node1:77", point(0.001, 32, 8, "flip"), {}),
]
COLUMNS = {"training_iteration": "iter", "time_total_s": "total time (s)", "loss": "loss", "accuracy": "acc"}

reporter = CLIReporter(metric_columns=COLUMNS, print_intermediate_tables=True, metric="accuracy", mode="max")
lines = reporter._progress_str(TRIALS, False).splitlines()
grid = [line for line in lines if line[:1] in "+|"]
counts = [line for line in lines if line.startswith("Number of trials")]
Path("status.txt").write_text("\n".join(counts + grid) + "\n")

# With 7 rows Ray shows 8 of them and says that 11 of 18 are hidden; 8 is a number that it gets right.
FEW = _trial_progress_str(TRIALS * 3, COLUMNS, force_table=True, max_rows=8).splitlines()
Path("truncated.txt").write_text("\n".join(line for line in FEW if line.startswith("...")) + "\n")

FAILED = [trial(6, "ERROR", "", point(1.0, 4, 2, "none"), {}, 3), trial(7, "ERROR", "", point(2.0, 4, 2, "none"), {}, 1)]
Path("errors.txt").write_text(_trial_errors_str(FAILED) + "\n")
