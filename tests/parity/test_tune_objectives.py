"""Studies of several objectives and with constraints, ours in Optuna's hands and Optuna's in ours."""

import json
import subprocess
import warnings

import optuna
import pytest

optuna.logging.set_verbosity(optuna.logging.ERROR)

STUDY = """
name = "two"
objectives = ["max accuracy", "min step_s"]
constraints = ["peak_mib <= 900", "accuracy >= 0.25"]
num_samples = {samples}
searcher = "{searcher}"
command = ["/bin/echo", '[tune-metric]: {{{{"accuracy": {{accuracy}}, "step_s": {{step_s}}, "peak_mib": {{peak_mib}}}}}}']
[space]
accuracy = "quniform(0, 1, 0.125)"
step_s = "randint(1, 9)"
peak_mib = "choice(100, 900, 901)"
"""


@pytest.fixture
def muster(program, tmp_path):
    """muster(words…): stdout of the program in the test's folder."""

    def run(*words):
        done = subprocess.run([program("muster"), *words], cwd=tmp_path, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def tune(muster, folder, samples, searcher):
    (folder / "study.toml").write_text(STUDY.format(samples=samples, searcher=searcher))
    return muster("tune", "study.toml")


def objective(trial):
    peak = trial.suggest_categorical("peak_mib", [100, 900, 901])
    accuracy, step_s = trial.suggest_float("accuracy", 0, 1, step=0.125), trial.suggest_int("step_s", 1, 8)
    trial.set_constraint("peak", peak - 900)
    trial.set_constraint("accuracy", 0.25 - accuracy)
    return accuracy, step_s


def front(muster, storage, study="two"):
    best = json.loads(muster("study", "best", storage, "--study", study, "--json"))["best_trials"]
    return [trial.get("optuna_number", trial["number"]) for trial in best]


@pytest.mark.parametrize("searcher", ["nsga2:population=4", "tpe:startup=5", "random"])
def test_optuna_takes_our_study_for_one_of_its_own_and_we_learn_of_its_trials(muster, tmp_path, searcher):
    lines = tune(muster, tmp_path, 30, searcher).splitlines()
    study = optuna.load_study(study_name="two", storage=f"sqlite:///{tmp_path}/two.db")
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"] and study.metric_names == ["accuracy", "step_s"]
    for trial in study.trials:
        assert trial.state.name == "COMPLETE" and not trial.intermediate_values
        assert trial.values == [trial.params["accuracy"], trial.params["step_s"]]
        assert list(trial.constraints.values()) == [trial.params["peak_mib"] - 900, 0.25 - trial.params["accuracy"]]
    best = [trial.number for trial in study.best_trials]
    assert front(muster, "two.db") == best and len(lines) == len(best)
    assert all(line.startswith("front accuracy ") for line in lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sampler in (optuna.samplers.NSGAIISampler(population_size=4, seed=1), optuna.samplers.TPESampler(seed=1)):
            again = optuna.load_study(study_name="two", storage=f"sqlite:///{tmp_path}/two.db", sampler=sampler)
            again.optimize(objective, n_trials=5)
        assert optuna.visualization.plot_pareto_front(again).data
    assert sorted(front(muster, "two.db")) == [trial.number for trial in again.best_trials]
    tune(muster, tmp_path, 35, searcher)
    shown = json.loads(muster("study", "show", "two.db", "--json"))
    assert len(shown["trials"]) == 45 and shown["objectives"] == ["max accuracy", "min step_s"]
    marked = [trial["number"] for trial in shown["trials"] if trial["on_front"]]
    assert marked == shown["best_trials"]


def test_a_study_that_optuna_made_is_shown_with_its_front(muster, tmp_path):
    study = optuna.create_study(study_name="theirs", storage=f"sqlite:///{tmp_path}/theirs.db", directions=["maximize", "minimize"])
    study.optimize(objective, n_trials=25)
    assert front(muster, "theirs.db", "theirs") == [trial.number for trial in study.best_trials]
    assert "value_0" in muster("study", "show", "theirs.db")
    muster("study", "plot", "theirs.db", "--kind", "pareto", "--output", "front.svg")
    muster("study", "importance", "theirs.db", "--of", "value_1", "--json")


def test_optunas_constraints_of_one_objective_keep_trials_from_being_best(muster, tmp_path):
    study = optuna.create_study(study_name="one", storage=f"sqlite:///{tmp_path}/one.db", direction="maximize")
    study.optimize(lambda trial: objective(trial)[0], n_trials=25)
    shown = json.loads(muster("study", "best", "one.db", "--json"))
    assert shown["optuna_number"] == study.best_trial.number
