"""Either launcher starts either side's programs, and both give a rank the same environment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def notes(folder, world):
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(world)]


@pytest.mark.parametrize("world", [2, 4])
def test_a_python_ddp_program_runs_under_muster_run(world, program, run, tmp_path):
    run(program("muster"), "run", "--nproc-per-node", world, "--", sys.executable, HERE / "python_rank.py", tmp_path)
    ranks = notes(tmp_path, world)
    assert [rank["sum"] for rank in ranks] == [world * (world + 1) / 2] * world
    assert all(rank["weight"] == ranks[0]["weight"] for rank in ranks)
    assert [rank["threads"] for rank in ranks] == [1] * world


def test_muster_train_runs_under_torchrun(program, torchrun, run, tmp_path):
    program("muster-torch")
    stdout = run(torchrun, "--nproc-per-node", 2, "--no-python", program("muster"), "train", "--model", "mlp", "--data",
                 "synthetic", "--strategy", "ddp", "--epochs", 1, "--batch-size", 32, "--output", tmp_path / "out")
    assert stdout.count("test accuracy ") == 1, "rank 0 alone reports"
    assert (tmp_path / "out" / "metrics.csv").exists()


def environments(launch, run, tmp_path, name, world):
    folder = tmp_path / name
    folder.mkdir()
    run(*launch, sys.executable, HERE / "show_environment.py", folder)
    return notes(folder, world)


# What differs between two starts of torchrun itself, or names its own processes.
OWN_TO_THE_RUN = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}


def test_a_rank_sees_the_variables_that_torchrun_sets(program, torchrun, run, tmp_path):
    world = 2
    theirs = environments([torchrun, "--nproc-per-node", world, "--no-python"], run, tmp_path, "torchrun", world)
    ours = environments([program("muster"), "run", "--nproc-per-node", world, "--"], run, tmp_path, "muster", world)
    for their, our in zip(theirs, ours):
        mine = {name: value for name, value in their.items() if name not in OWN_TO_THE_RUN}
        # Our rank 0 serves the store: the launcher is torch-free.
        mine["TORCHELASTIC_USE_AGENT_STORE"] = "False"
        assert OWN_TO_THE_RUN & set(their) <= set(our)
        assert {name: our.get(name) for name in mine} == mine
        assert int(our["MASTER_PORT"]) > 0


def failure_of(*command):
    """What a launcher says of a job that must fail."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=300)
    assert done.returncode == 1, f"ended with {done.returncode}\n{done.stderr}"
    return done.stderr


def test_torchrun_shows_why_a_muster_rank_failed_first(program, torchrun):
    said = failure_of(torchrun, "--nproc-per-node", 2, "--no-python", program("muster_failing_rank"), "gloo", "go-on,throw:50")
    cause = said[said.index("Root Cause"):]
    assert "rank      : 1 " in cause and "std::runtime_error: my own error" in cause


RECORDS = """
import os, time
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["RANK"] == "1":
        raise ValueError("my own error")
    time.sleep(300)

main()
"""


def test_muster_run_shows_what_pythons_record_wrote(program, tmp_path):
    (tmp_path / "records.py").write_text(RECORDS)
    said = failure_of(program("muster"), "run", "--nproc-per-node", 2, "--", sys.executable, tmp_path / "records.py")
    assert "error: rank 1 (pid " in said and "ValueError: my own error" in said
