"""A script written for Syne Tune reports to `muster tune` as it stands, by the lines that Syne Tune's Reporter prints."""

import json
import sys

SCRIPT = """
import sys
from syne_tune import Reporter

report = Reporter()
for epoch in range(1, 5):
    report(epoch=epoch, loss=float("nan") if epoch == 2 else float(sys.argv[1]) / epoch)
"""

STUDY = """
name = "syne"
metric = "loss"
mode = "min"
num_samples = 1
command = [{python}, "train.py", "{{lr}}"]

[space]
lr = 0.5
"""


def test_a_script_for_syne_tune_runs_as_it_stands(program, run, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "study.toml").write_text(STUDY.format(python=json.dumps(sys.executable)))
    run(program("muster"), "tune", "study.toml", "--json")
    [trial] = json.loads(run(program("muster"), "study", "show", "syne.db", "--json"))["trials"]
    assert trial["state"] == "COMPLETE", trial
    assert [report["step"] for report in trial["reports"]] == [1, 2, 3, 4]
    assert set(trial["metrics"]) == {"epoch", "loss"}, "Syne Tune's own numbers are left out"
    losses = [report["metrics"]["loss"] for report in trial["reports"]]
    assert str(losses.pop(1)).lower() == "nan" and losses == [0.5, 0.5 / 3, 0.125]
