"""The study over a plain Python script, examples/tune_fashion/study_python.toml, on a part of the data."""

import json
import os
import re
import sys
from pathlib import Path

from conftest import ROOT

EXAMPLE = ROOT / "examples" / "tune_fashion"


def test_a_plain_python_script_is_tuned_by_the_line_that_it_prints(program, run, tmp_path):
    text = (EXAMPLE / "study_python.toml").read_text()
    text, changed = re.subn(r'"train\.py"', json.dumps(str(EXAMPLE / "train.py")) + ', "--train-samples", "2000"', text)
    assert changed == 1
    (tmp_path / "study.toml").write_text(text.replace("num_samples = 20", "num_samples = 3"))
    python = Path(sys.executable).parent
    out = run(program("muster"), "tune", "study.toml", "--json", PATH=f"{python}:{os.environ['PATH']}")
    result = json.loads(out)
    assert sum(result["trials"].values()) == 3 and "FAIL" not in result["trials"], result
    assert 0.5 < result["best"]["accuracy"] < 1
    study = json.loads(run(program("muster"), "study", "show", "fashion-python.db", "--json"))
    for trial in study["trials"]:
        steps = [report["step"] for report in trial["reports"]]
        assert steps == list(range(1, len(steps) + 1)) and set(trial["metrics"]) == {"loss", "accuracy"}
        assert (len(steps) == 10) == (trial["state"] == "COMPLETE"), trial
