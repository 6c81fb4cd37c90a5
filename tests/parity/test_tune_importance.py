"""`muster study importance` beside optuna.importance, on one and the same file."""

import json
import math

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def shares(study):
    return {name: float(share) for name, share in optuna.importance.get_param_importances(study).items()}


def expect_same(run, program, file, theirs):
    ours = json.loads(run(program("muster"), "study", "importance", file, "--json"))["importance"]
    assert {row["parameter"] for row in ours} == set(theirs)
    for row in ours:
        assert math.isclose(row["share"], theirs[row["parameter"]], abs_tol=1e-10), row["parameter"]


def test_a_study_of_optunas(run, program, tmp_path):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/optuna.db", study_name="o", direction="maximize",
                                sampler=optuna.samplers.RandomSampler(seed=3))

    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b", None])
        x = trial.suggest_float("x", 1e-3, 10, log=True)
        n = trial.suggest_int("n", 2, 12, step=5)
        if kind == "a":
            x += trial.suggest_float("only with a", 0, 1, step=0.25)
        if trial.number % 7 == 0:
            raise optuna.TrialPruned
        return math.log(x) + n * 0.1

    study.optimize(objective, n_trials=60)
    expect_same(run, program, tmp_path / "optuna.db", shares(study))


def test_a_study_of_ours(run, program, tmp_path):
    (tmp_path / "train.sh").write_text("#!/bin/sh\n\"$1\" report step=1 loss=$2\n")
    (tmp_path / "train.sh").chmod(0o755)
    (tmp_path / "study.toml").write_text(f"""
name = "ours"
metric = "loss"
mode = "min"
num_samples = 40
command = ["./train.sh", "{program("muster")}", "{{wanted}}"]

[space]
x = "uniform(0, 1)"
n = "randint(1, 5)"
q = "quniform(0, 1, 0.25)"
kind = "choice('a', 'b')"
width = "sample_from(2 ** randint(2, 9))"
wanted = "sample_from(x * n + 0.1 * q)"
""")
    run(program("muster"), "tune", "study.toml", timeout=200)
    study = optuna.load_study(study_name="ours", storage=f"sqlite:///{tmp_path}/ours.db")
    theirs = shares(study)
    assert max(theirs, key=theirs.get) in ("x", "n")
    expect_same(run, program, tmp_path / "ours.db", theirs)
