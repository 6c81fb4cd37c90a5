#!/usr/bin/env python3
"""Runs an example of examples/tasks as its users would: alone and on two ranks, killed and resumed.

    task_runs.py MUSTER PROGRAM SOURCE [FLAGS OF THE PROGRAM]

On each number of ranks: an unbroken run; one that is killed with SIGKILL when it has saved a step, and resumed. The checkpoints
at the end are equal byte for byte. What the unbroken runs print agrees with the source's top comment, within 3 percent; so does
that of a run on fake devices, if the program offers them.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import run_example

PATIENCE_S = 100


def command(muster, ranks, words):
    launcher = [muster, "run", "--nproc-per-node", str(ranks), "--no-prefix", "--"] if ranks > 1 else []
    return launcher + words


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stderr}"
    return done.stdout.strip().splitlines()


def latest(output):
    """The folder of the newest checkpoint, or None."""
    file = output / "latest"
    return output / "checkpoints" / file.read_text().strip() if file.exists() else None


def step_of(checkpoint):
    return int(checkpoint.name.removeprefix("step-")) if checkpoint else 0


def kill_at_a_step(words, output):
    """Ends the whole process group once a checkpoint is there of a step that is drawn."""
    least = random.randint(1, 60)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and step_of(latest(output)) < least:
        assert process.poll() is None, f"{words} ended before it saved a step: {process.stderr.read()}"
        time.sleep(0.002)
    trained = processes_of(output)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The launcher is gone; its ranks, in groups of their own, end when they hear of it, and let go of the folder then.
    while any(is_running(pid) for pid in trained):
        assert time.monotonic() < until + PATIENCE_S, f"{trained} go on in {output}"
        time.sleep(0.01)


def processes_of(output):
    """The processes with that folder on their command line."""
    found = []
    for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(output).encode() in line.read_bytes().split(b"\0"):
                found.append(int(line.parent.name))
        except OSError:  # it has ended
            pass
    return found


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def state_of(output):
    """The last checkpoint, and the metrics but for times."""
    checkpoint = latest(output)
    files = {file.name: file.read_bytes() for file in checkpoint.glob("*.safetensors")}
    assert "model.safetensors" in files and "optimizer.safetensors" in files, checkpoint
    return checkpoint.name, files


def check_asked(muster, program, run_folder, said, scratch):
    """`PROGRAM evaluate RUN` says what the run's own test said, and `PROGRAM predict RUN` a line for each sample."""
    told = dict(re.findall(r"(\w+) (-?[0-9.e+]+)", said.removeprefix("test ")))
    for ranks in (1, 2):
        numbers = dict(line.split() for line in run(command(muster, ranks, [program, "evaluate", str(run_folder)])))
        assert set(numbers) == set(told), f"{numbers} instead of {told}"
        for name, value in numbers.items():
            assert abs(float(value) - float(told[name])) < 2e-4, f"{ranks} ranks: {name} {value}, the run said {told[name]}"
    asked = subprocess.run([muster, "evaluate", str(run_folder)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert asked.returncode == 2 and f"`{program} evaluate {run_folder}`" in asked.stderr, asked.stderr
    files = []
    for ranks in (1, 2):
        file = pathlib.Path(scratch) / f"{run_folder.name}-{ranks}.csv"
        words = command(muster, ranks, [program, "predict", str(run_folder), "--output", str(file)])
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode == 2 and "it has no predict_step()" in done.stderr:
            assert not file.exists()
            return
        assert done.returncode == 0, done.stderr
        files.append(file.read_text())
    lines = files[0].splitlines()
    assert lines[0].startswith("index,") and [line.split(",")[0] for line in lines[1:]] == [
        str(i) for i in range(len(lines) - 1)
    ], lines[:3]
    assert files[0] == files[1], "other predictions on two ranks"
    print(f"{len(lines) - 1} predictions, {lines[0]}")


def main(muster, program, source, *flags):
    lines = len(pathlib.Path(source).read_text().splitlines())
    assert lines <= 80, f"{source} has {lines} lines: an example of a task has 80 at most"
    expected = run_example.expected_lines(source)
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in (1, 2):
            whole, broken = (pathlib.Path(scratch) / f"{name}-{ranks}" for name in ("whole", "broken"))
            # Two ranks of two cores: one thread each, and one alone, so that all compute alike.
            words = [program, "--log-every", "10", "--workers", "1", *flags, "--output"]
            said = run(command(muster, ranks, [*words, str(whole)]))
            assert len(said) == len(expected), f"{ranks} ranks: expected {expected}, got {said}"
            for wanted, line in zip(expected, said):
                assert run_example.same(wanted, line), f"{ranks} ranks: expected {wanted!r}, got {line!r}"
            if "kFakeDevices" in pathlib.Path(source).read_text():
                there = run(command(muster, ranks, [*words, str(whole) + "-fake", "--device", "fake"]))
                assert run_example.same(said[-1], there[-1]), f"{ranks} ranks on fake devices: {there}"
            kill_at_a_step(command(muster, ranks, [*words, str(broken), "--checkpoint-every", "3"]), broken)
            before = latest(broken).name
            # A checkpoint every 3 steps was to be killed soon; to the end they would be hundreds, each of some 20 fsyncs.
            run(command(muster, ranks, [program, "--output", str(broken), "--resume", "auto", "--checkpoint-every", "1000"]))
            (name, state), (other, resumed) = state_of(whole), state_of(broken)
            assert name == other, f"{ranks} ranks: the unbroken run ends with {name}, the resumed one with {other}"
            unlike = [file for file in state if state[file] != resumed.get(file)]
            assert not unlike, f"{ranks} ranks, killed at {before}: {unlike} differ from the unbroken run's"
            check_asked(muster, program, whole, said[-1], scratch)
            print(f"{ranks} ranks: {said[-1]}; killed at {before}, resumed to the same {name}")


if __name__ == "__main__":
    assert len(sys.argv) >= 4, __doc__
    main(*sys.argv[1:])
