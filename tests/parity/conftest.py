"""What the live tests share: where the build is, and how to run a command that must end well."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("MUSTER_BUILD_DIR", "build")


def pytest_addoption(parser):
    parser.addoption("--goldens", choices=["all", "changed"], default="all",
                     help="which goldens to make anew: changed = those that changed lately (see test_goldens.py)")


def pytest_collection_modifyitems(config, items):
    if config.getoption("goldens") == "all":
        return
    folders = {}
    for item in items:
        if "folder" in getattr(item, "fixturenames", ()):
            folders[item] = item.callspec.params["folder"]
    changed = next(iter(folders)).module.changed_folders() if folders else []
    config.hook.pytest_deselected(items=[item for item, folder in folders.items() if folder not in changed])
    items[:] = [item for item in items if item not in folders or folders[item] in changed]


@pytest.fixture(scope="session")
def program():
    """program(name) is the path of an executable of the build, brought up to date first."""
    fresh = set()

    def build(name):
        if not (BUILD / "CMakeCache.txt").exists():
            pytest.fail(f"{BUILD} is no build folder\nhint: `make build`, or name one by MUSTER_BUILD_DIR")
        if name not in fresh:
            with open(BUILD / ".parity.lock", "w") as lock:  # pytest runs in two processes, ninja must not
                fcntl.flock(lock, fcntl.LOCK_EX)
                subprocess.run(["cmake", "--build", str(BUILD), "--target", name], check=True, stdout=subprocess.DEVNULL)
            fresh.add(name)
        return str(BUILD / "bin" / name)

    return build


@pytest.fixture(scope="session")
def torchrun():
    return str(Path(sys.executable).parent / "torchrun")


@pytest.fixture
def run(tmp_path):
    """Runs a command in the test's own folder and returns its stdout; its whole output is shown if it fails."""

    def run_command(*command, timeout=300, **environment):
        clean = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        done = subprocess.run([str(word) for word in command], cwd=tmp_path, env=clean | environment, text=True,
                              capture_output=True, timeout=timeout)
        assert done.returncode == 0, (
            f"{' '.join(map(str, command))} ended with {done.returncode}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        return done.stdout

    return run_command
