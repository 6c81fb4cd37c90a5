"""Studies that Muster writes, in the hands of Optuna, its dashboard, TensorBoard and Ray; and Optuna's in ours."""

import contextlib
import csv
import datetime
import json
import math
import random
import re
import sqlite3
import subprocess
import threading
import urllib.request
import warnings
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import optuna_dashboard
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)

SPACE = {
    "lr": "loguniform(1e-4, 1e-1)",
    "l1": "sample_from(2 ** randint(2, 9))",
    "batch_size": "choice(2, 4, 8, 16)",
    "drop": "quniform(0, 1, 0.25)",
    "layers": "randint(1, 5)",
    "optimizer.name": "choice('adam', 'sgd')",
    "epochs": 10,
}
DISTRIBUTIONS = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "l1": CategoricalDistribution([4, 8, 16, 32, 64, 128, 256]),
    "batch_size": CategoricalDistribution([2, 4, 8, 16]),
    "drop": FloatDistribution(0, 1, step=0.25),
    "layers": IntDistribution(1, 4),
    "optimizer.name": CategoricalDistribution(["adam", "sgd"]),
}


def suggest(trial):
    return {name: trial._suggest(name, distribution) for name, distribution in DISTRIBUTIONS.items()}


def loss(params):
    return (math.log10(params["lr"]) + 2.3) ** 2 + 0.1 * abs(params["l1"] - 64) / 64 + params["drop"]


def random_study(trials, seed=1, **changes):
    """A study as JSON for the twin; numbers that JSON has not are texts."""
    rng = random.Random(seed)
    study = {"name": "größe", "metric": "loss", "mode": "min", "scope": "last", "searcher": "random", "space": SPACE}
    study["trials"] = []
    for _ in range(trials):
        params = {"lr": 10 ** rng.uniform(-4, -1), "l1": 2 ** rng.randint(2, 8), "batch_size": rng.choice([2, 4, 8, 16]),
                  "drop": rng.randint(0, 4) / 4, "layers": rng.randint(1, 4), "optimizer.name": rng.choice(["adam", "sgd"])}
        final = loss(params)
        reports = {str(step): {"loss": final + 1 / step, "accuracy": rng.random()} for step in range(1, rng.randint(2, 9))}
        state = rng.choice(["COMPLETE"] * 4 + ["PRUNED"] * 2 + ["FAIL", "RUNNING"])
        if rng.random() < 0.2:
            reports[rng.choice(list(reports))]["loss"] = rng.choice(["nan", "inf", "-inf"])
        study["trials"].append({"params": params, "reports": reports, "state": state})
    return study | changes


@pytest.fixture
def twin(program, tmp_path):
    """twin(command, FILE…, input) runs the twin in the test's folder; its stdout."""

    def run(*words, given=None):
        text = None if given is None else json.dumps(given)
        done = subprocess.run([program("tune_storage_twin"), *map(str, words)], input=text, cwd=tmp_path, text=True,
                              capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def written(twin, tmp_path):
    """A study of 60 trials by us: what was written, and its storage for Optuna."""
    given = random_study(60)
    twin("write", "study.db", given=given)
    return given, f"sqlite:///{tmp_path}/study.db"


def value_expected(trial):
    """What Optuna has as the value of a trial: its last report, if there can be one."""
    values = [float(report["loss"]) for report in trial["reports"].values()]
    if trial["state"] not in ("COMPLETE", "PRUNED") or not values or math.isnan(values[-1]):
        return None
    return values[-1]


def same(a, b):
    return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))


def test_optuna_reads_every_value_that_we_wrote(written):
    given, storage = written
    study = optuna.load_study(study_name="größe", storage=storage)
    assert study.direction.name == "MINIMIZE" and study.metric_names == ["loss"]
    assert len(study.trials) == len(given["trials"])
    for number, (trial, wanted) in enumerate(zip(study.trials, given["trials"])):
        value = value_expected(wanted)
        state = wanted["state"]
        if state == "COMPLETE" and value is None:
            state = "FAIL"
        assert trial.number == number and trial.state.name == state
        assert trial.params == {name: pytest.approx(v, abs=0) for name, v in wanted["params"].items()}
        assert {name: type(v) for name, v in trial.params.items()} == {n: type(v) for n, v in wanted["params"].items()}
        assert trial.distributions == DISTRIBUTIONS
        assert same(trial.value, value)
        assert list(trial.intermediate_values) == [int(step) for step in wanted["reports"]]
        for step, report in wanted["reports"].items():
            assert same(trial.intermediate_values[int(step)], float(report["loss"]))
        assert trial.user_attrs["epochs"] == 10
        assert (trial.datetime_complete is None) == (not trial.state.is_finished())
        if trial.state.is_finished():
            assert trial.user_attrs["muster_reason"] == f'why {number} ended: "ü"'
            assert trial.datetime_complete > trial.datetime_start
    first = study.trials[0].datetime_start.astimezone(datetime.timezone.utc)
    assert first.timestamp() == pytest.approx(1.7e9 + 0.25, abs=1e-6)  # its first attempt, the second event


def finite_best(study):
    return min((t for t in study.trials if t.state == TrialState.COMPLETE), key=lambda t: t.value)


def test_optuna_goes_on_with_our_study_and_we_with_optunas(written, twin):
    given, storage = written
    study = optuna.load_study(study_name="größe", storage=storage, sampler=optuna.samplers.TPESampler(seed=1))
    assert study.best_trial.number == finite_best(study).number

    def objective(trial):
        params = suggest(trial)
        trial.report(loss(params) + 1, 1)
        return loss(params)

    study.optimize(objective, n_trials=5)
    theirs = study.trials[60:]
    assert [t.number for t in theirs] == [60, 61, 62, 63, 64]
    stored = json.loads(twin("read", "study.db", "größe"))
    assert len(stored["trials"]) == 65
    for trial, ours in zip(theirs, stored["trials"][60:]):
        assert ours["added_by"] == "optuna" and ours["optuna_number"] == trial.number and ours["state"] == "COMPLETE"
        assert ours["params"] == trial.params
        assert ours["value"] == trial.value
        assert [r["step"] for r in ours["reports"]] == [1]
        assert ours["run_s"] == pytest.approx(trial.duration.total_seconds(), abs=1e-5)
    # Numbers that JSON has not are texts; ours looks at pruned trials, too, Optuna's at complete ones only.
    values = {t["number"]: float(t["value"]) for t in stored["trials"]
              if t["state"] in ("COMPLETE", "PRUNED") and t["value"] is not None}
    lowest = min(value for value in values.values() if not math.isnan(value))
    assert values[stored["best_trial"]] == lowest <= study.best_value

    twin("write", "study.db", given=random_study(3, seed=2))  # ours go on behind Optuna's
    again = optuna.load_study(study_name="größe", storage=storage)
    assert [t.number for t in again.trials] == list(range(68))
    assert again.trials[65].params == random_study(3, seed=2)["trials"][0]["params"]
    again.optimize(objective, n_trials=1)


def test_a_study_that_optuna_made_is_read_by_us(twin, tmp_path):
    storage = f"sqlite:///{tmp_path}/theirs.db"
    study = optuna.create_study(study_name="theirs", storage=storage, direction="maximize")

    def objective(trial):
        params = suggest(trial)
        trial.report(0.5, 3)
        if trial.number == 2:
            raise optuna.TrialPruned
        if trial.number == 3:
            return math.nan
        return loss(params)

    study.optimize(objective, n_trials=6)
    stored = json.loads(twin("read", "theirs.db", "theirs"))
    assert stored["mode"] == "max" and [t["optuna_number"] for t in stored["trials"]] == list(range(6))
    assert [t["state"] for t in stored["trials"]] == [t.state.name for t in study.trials]
    assert [t["value"] for t in stored["trials"]] == [t.value for t in study.trials]
    assert [t["params"] for t in stored["trials"]] == [t.params for t in study.trials]
    named = next(t for t in stored["trials"] if t["number"] == stored["best_trial"])
    assert named["optuna_number"] == study.best_trial.number


def test_we_go_on_with_a_study_that_optuna_made(twin, tmp_path, program):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(study_name="größe", storage=storage, direction="minimize")
    study.optimize(lambda trial: loss(suggest(trial)), n_trials=3)
    twin("write", "study.db", given=random_study(2))
    study.optimize(lambda trial: loss(suggest(trial)), n_trials=2)
    again = optuna.load_study(study_name="größe", storage=storage)
    assert [t.number for t in again.trials] == list(range(7))
    assert [t.params for t in again.trials[3:5]] == [t["params"] for t in random_study(2)["trials"]]
    stored = json.loads(twin("read", "study.db", "größe"))
    assert ["added_by" in t for t in stored["trials"]] == [False, False, True, True, True, True, True]
    other = subprocess.run([program("tune_storage_twin"), "write", "study.db"], cwd=tmp_path, text=True, capture_output=True,
                           input=json.dumps(random_study(1, mode="max")))
    assert other.returncode == 1 and "is another one" in other.stderr


STUDY_THAT_LEARNS = """
name = "learns"
metric = "loss"
mode = "min"
num_samples = {samples}
searcher = "random_then_grid:startup=1,top=1"
command = ["/bin/echo", '[tune-metric]: {{{{"loss": {{lr}}}}}}']
[space]
lr = "loguniform(1e-4, 1e-1)"
momentum = "uniform(0, 1)"
"""


def test_our_searcher_learns_from_trials_that_optuna_added(tmp_path, program):
    def tune(samples):
        (tmp_path / "study.toml").write_text(STUDY_THAT_LEARNS.format(samples=samples))
        done = subprocess.run([program("muster"), "tune", "study.toml"], cwd=tmp_path, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    tune(1)
    study = optuna.load_study(study_name="learns", storage=f"sqlite:///{tmp_path}/learns.db")

    def objective(trial):
        loss = trial.suggest_float("lr", 1e-4, 1e-1, log=True) - 1  # far better than any of ours
        return loss + 0 * trial.suggest_float("momentum", 0, 1)

    study.optimize(objective, n_trials=8)
    study.optimize(lambda trial: trial.suggest_float("other", 0, 1) - 9, n_trials=1)  # of another space: left out
    assert "told the searcher of 8 trials by Optuna" in tune(6)
    best = min(study.trials[1:9], key=lambda t: t.value)
    with contextlib.closing(sqlite3.connect(tmp_path / "learns.db")) as file:
        added = [row for row, in file.execute("SELECT payload FROM muster_log WHERE kind = 'trial_added' ORDER BY id")]
    assert len(added) == 6 and "random start 1" in added[0]
    assert all(f"around Optuna's trial {best.number}" in payload for payload in added[1:])
    assert "told the searcher" not in tune(7)  # once


def test_optuna_deletes_our_study_and_makes_another_of_its_name(written, twin, tmp_path):
    _, storage = written
    optuna.delete_study(study_name="größe", storage=storage)
    optuna.create_study(study_name="größe", storage=storage, direction="minimize").optimize(loss_of_one, n_trials=1)
    stored = json.loads(twin("read", "study.db", "größe"))
    assert [t["added_by"] for t in stored["trials"]] == ["optuna"]


def loss_of_one(trial):
    return trial.suggest_float("lr", 1e-4, 1e-1, log=True)


def test_optuna_plots_our_study(written):
    _, storage = written
    study = optuna.load_study(study_name="größe", storage=storage)
    # Optuna draws no axis for infinite values: it leaves such trials out and warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = optuna.visualization.plot_optimization_history(study)
        curves = optuna.visualization.plot_intermediate_values(study)
        importance = optuna.importance.get_param_importances(study)
        for plot in (optuna.visualization.plot_parallel_coordinate, optuna.visualization.plot_slice,
                     optuna.visualization.plot_edf, optuna.visualization.plot_timeline,
                     optuna.visualization.plot_param_importances):
            assert plot(study).data
    finite = [t.number for t in study.trials if t.state == TrialState.COMPLETE]
    assert set(history.data[0].x) <= set(finite) and len(history.data[0].x) > 20
    assert len(curves.data) >= 40
    assert set(importance) == set(DISTRIBUTIONS) and sum(importance.values()) == pytest.approx(1)


class Silent(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def test_optuna_dashboard_serves_our_study(written):
    given, storage = written
    server = make_server("127.0.0.1", 0, optuna_dashboard.wsgi(storage), handler_class=Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        def get(path):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}") as answer:
                return json.loads(answer.read())

        (summary,) = get("/api/studies")["study_summaries"]
        assert summary["study_name"] == "größe"
        detail = get(f"/api/studies/{summary['study_id']}?after=0")
        assert len(detail["trials"]) == len(given["trials"])
        for trial, wanted in zip(detail["trials"], given["trials"]):
            params = {p["name"]: p["param_external_value"] for p in trial["params"]}
            assert set(params) == set(wanted["params"])
            assert params["optimizer.name"] == wanted["params"]["optimizer.name"]
            assert len(trial["intermediate_values"]) == len(wanted["reports"])
        finished = next(trial for trial in detail["trials"] if trial["state"] == "Complete")
        assert {a["key"] for a in finished["user_attrs"]} == {"epochs", "muster_reason"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_tensorboards_hparams_tab_lists_all_trials_with_all_parameters(written, twin, tmp_path):
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    given, _ = written
    twin("tensorboard", "study.db", "größe", "tb")
    twin("tensorboard", "study.db", "größe", "tb")  # again: nothing is there twice
    sizes = {"scalars": 0, "tensors": 0}
    multiplexer = plugin_event_multiplexer.EventMultiplexer(size_guidance=sizes, tensor_size_guidance={"scalars": 0, "hparams": 0})
    multiplexer.AddRunsFromDirectory(str(tmp_path / "tb"))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path / "tb"))
    backend = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=str(tmp_path / "tb")))
    request = context.RequestContext()
    experiment = backend.experiment_from_metadata(request, "", True, backend.hparams_metadata(request, ""), [])
    infos = {info.name: info for info in experiment.hparam_infos}
    assert set(infos) == set(SPACE)
    assert infos["lr"].domain_interval.min_value == 1e-4 and infos["lr"].domain_interval.max_value == 1e-1
    assert [v.number_value for v in infos["batch_size"].domain_discrete.values] == [2, 4, 8, 16]
    assert [v.string_value for v in infos["optimizer.name"].domain_discrete.values] == ["adam", "sgd"]
    assert infos["l1"].type == api_pb2.DATA_TYPE_FLOAT64 and infos["optimizer.name"].type == api_pb2.DATA_TYPE_STRING
    assert {m.name.tag for m in experiment.metric_infos} == {"loss", "accuracy"}
    wanted = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=1000, allowed_statuses=[
        api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING, api_pb2.STATUS_UNKNOWN])
    for name in SPACE:
        wanted.col_params.add(hparam=name, include_in_result=True)
    groups = list_session_groups.Handler(request, backend, "", wanted).run().session_groups
    assert len(groups) == len(given["trials"])
    by_name = {group.sessions[0].name: group for group in groups}
    for number, trial in enumerate(given["trials"]):
        group = by_name[f"trial-{number:05}"]
        for name, value in trial["params"].items():
            shown = group.hparams[name]
            assert (shown.string_value if isinstance(value, str) else shown.number_value) == value
        status = {"FAIL": api_pb2.STATUS_FAILURE, "RUNNING": api_pb2.STATUS_RUNNING}
        if trial["state"] in ("COMPLETE", "PRUNED", "FAIL"):
            assert group.sessions[0].status == status.get(trial["state"], api_pb2.STATUS_SUCCESS)
        points = multiplexer.Tensors(f"trial-{number:05}", "accuracy")
        assert [p.step for p in points] == [int(step) for step in trial["reports"]]


def test_rays_files_are_as_ray_writes_them(written, twin, tmp_path):
    from ray.tune.result import AUTO_RESULT_KEYS
    from ray.tune.search.variant_generator import format_vars

    given, _ = written
    twin("ray", "study.db", "größe", "ray")
    folders = sorted((tmp_path / "ray").iterdir(), key=lambda f: int(re.search(r"_(\d{5})_", f.name)[1]))
    assert len(folders) == len(given["trials"])
    for number, (folder, trial) in enumerate(zip(folders, given["trials"])):
        tag = f"{number}_" + format_vars({tuple(name.split(".")): value for name, value in trial["params"].items()})
        assert re.fullmatch(rf"größe_[0-9a-f]{{5}}_{number:05}_{re.escape(tag)}_\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d", folder.name)
        config = json.loads((folder / "params.json").read_text())
        assert config["optimizer"]["name"] == trial["params"]["optimizer.name"]
        assert config["lr"] == trial["params"]["lr"] and config["epochs"] == 10
        lines = [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]
        assert [line["step"] for line in lines] == [int(step) for step in trial["reports"]]
        for line, report in zip(lines, trial["reports"].values()):
            assert same(line["loss"], float(report["loss"])) and line["config"] == config
        auto = set(AUTO_RESULT_KEYS) - {"episodes_total", "timesteps_total", "timesteps_since_restore", "checkpoint_dir_name"}
        assert auto | {"trial_id", "done"} <= set(lines[0])
        assert [line["training_iteration"] for line in lines] == list(range(1, len(lines) + 1))
        with (folder / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["accuracy"]) for row in rows] == [r["accuracy"] for r in trial["reports"].values()]
        assert [row["experiment_tag"] for row in rows] == [tag] * len(rows)
