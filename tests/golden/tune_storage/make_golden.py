#!/usr/bin/env python3
"""Writes golden.json: the tables that Optuna makes, and what it puts into them for a small study.

    make_golden.py        needs optuna 5.0.0
"""
import json
import math
import pathlib
import sqlite3
import tempfile

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

HERE = pathlib.Path(__file__).resolve().parent
SPACE = {
    "lr": FloatDistribution(1e-5, 0.1, log=True),
    "q": FloatDistribution(0, 1, step=0.25),
    "wide": FloatDistribution(-1e16, 123456789.0),
    "l1": IntDistribution(2, 9),
    "odd": IntDistribution(0, 9, step=3),
    "width": IntDistribution(1, 1024, log=True),
    "choice": CategoricalDistribution([2, 0.5, True, "a\u00fc\"", 1e-5]),
}
PARAMS = {"lr": 3e-4, "q": 0.75, "wide": -2.5e15, "l1": 8, "odd": 6, "width": 64, "choice": "a\u00fc\""}
TRIALS = [
    (TrialState.COMPLETE, 0.25, {1: 0.5, 2: math.nan, 3: math.inf, 5: 0.25}),
    (TrialState.PRUNED, -math.inf, {1: -math.inf}),
    (TrialState.FAIL, None, {}),
    (TrialState.COMPLETE, math.inf, {1: 1, 2: math.inf}),
]
ROWS = {
    "studies": "SELECT study_id, study_name FROM studies",
    "study_directions": "SELECT study_id, direction, objective FROM study_directions",
    "study_system_attributes": 'SELECT study_id, "key", value_json FROM study_system_attributes',
    "version_info": "SELECT version_info_id, schema_version, library_version FROM version_info",
    "alembic_version": "SELECT version_num FROM alembic_version",
    "trials": "SELECT trial_id, number, study_id, state FROM trials ORDER BY trial_id",
    "trial_params": "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params ORDER BY param_id",
    "trial_values": "SELECT trial_id, objective, value, value_type FROM trial_values ORDER BY trial_id",
    "trial_intermediate_values": "SELECT trial_id, step, intermediate_value, intermediate_value_type "
                                 "FROM trial_intermediate_values ORDER BY trial_id, step",
}


def study_rows(storage, connection):
    study = optuna.create_study(storage=storage, study_name="gold\u00f6", direction="minimize")
    study.set_metric_names(["loss"])
    for state, value, points in TRIALS:
        study.add_trial(create_trial(state=state, value=value, params=PARAMS, distributions=SPACE, intermediate_values=points))
    return {name: [list(row) for row in connection.execute(query)] for name, query in ROWS.items()}


SEVERAL = [
    (TrialState.COMPLETE, [0.5, 2.0], (-100.0, 0.25)),
    (TrialState.COMPLETE, [0.25, math.inf], (0.0, 0.0)),
    (TrialState.FAIL, None, None),
    (TrialState.COMPLETE, [0.75, 1e-9], (12.5, -0.125)),
    (TrialState.COMPLETE, [0.375, 1.0], (-1.0, -1.0)),
    (TrialState.COMPLETE, [0.625, 3.0], (-1.0, 0.0)),
    (TrialState.COMPLETE, [0.25, 4.0], (-1.0, -1.0)),
]


def rows_of_several(storage, connection):
    """Two objectives, and constraints as a sampler's constraints_func stores them."""
    study = optuna.create_study(storage=storage, study_name="two", directions=["maximize", "minimize"])
    study.set_metric_names(["accuracy", "step_s"])
    for state, values, constraints in SEVERAL:
        attributes = {} if constraints is None else {"constraints": constraints}
        study.add_trial(create_trial(state=state, values=values, params={"q": 0.75}, distributions={"q": SPACE["q"]}, system_attrs=attributes))
    queries = ROWS | {"trial_system_attributes": 'SELECT trial_id, "key", value_json FROM trial_system_attributes ORDER BY trial_id'}
    rows = {name: [list(row) for row in connection.execute(query)] for name, query in queries.items()}
    return {"queries": queries, "rows": rows, "best_trials": [trial.number for trial in study.best_trials]}


def schema(connection):
    """Each table's and index's own statement, blanks made one."""
    statements = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return {name: " ".join(sql.split()) for name, sql in statements}


def main():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    assert optuna.__version__ == "5.0.0"
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "study.db"
        storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
        connection = sqlite3.connect(file)
        rows = study_rows(storage, connection)
        golden = {"optuna": optuna.__version__, "schema": schema(connection), "queries": ROWS, "rows": rows}
        file = pathlib.Path(folder) / "several.db"
        storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
        golden["several"] = rows_of_several(storage, sqlite3.connect(file))
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
