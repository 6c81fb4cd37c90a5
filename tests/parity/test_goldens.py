"""Every golden made anew. A golden is a file beside the script `make_golden.py` that writes it.

The script runs in a copy of its folder that holds only the scripts (*.py) and what it reads (input/), so a file that it
no longer writes is noticed too; beside it are the scripts of the other folders, which it may import. All text must be equal,
with one exception: below a JSON object that has the number "tolerance", numbers may differ by that much, and where it has
"relative_tolerance", by that share, because matrix products and exponentials round differently on other CPUs.

`make parity` and `make nightly` make all. With --goldens=changed, as in .ci/run, those are made of which a file changed since
the branch left origin/main, or in the last 20 commits if it has not, or in the working tree; all if the peers' versions or this
file did, or if git cannot say.
"""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"
FOLDERS = sorted(script.parent for script in GOLDEN.glob("**/make_golden.py"))


def changed_folders():
    """The folders that may no longer be what their scripts write."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=GOLDEN, text=True, capture_output=True)
        return done.stdout.split() if done.returncode == 0 else None

    head, base = git("rev-parse", "HEAD"), git("merge-base", "HEAD", "origin/main")
    if base is None or base == head:
        base = git("rev-parse", "--verify", "-q", "HEAD~20")
    names = git("diff", "--name-only", "--relative", base[0], "--", ".") if base else None
    peers = git("diff", "--name-only", base[0], "--", "../parity/requirements.txt", "../parity/test_goldens.py") if base else None
    new = git("ls-files", "--others", "--exclude-standard", ".")
    if names is None or new is None or peers or peers is None:
        return FOLDERS
    # A script may import another folder's, so whoever names a changed folder is made anew too.
    changed = {GOLDEN / Path(name).parts[0] for name in names + new}
    return [folder for folder in FOLDERS if any(
        other in (folder, *folder.parents) or other.name in (folder / "make_golden.py").read_text() for other in changed)]


def is_golden(path):
    return path.is_file() and path.suffix not in {".py", ".md"} and "input" not in path.parts and "__pycache__" not in path.parts


def goldens(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if is_golden(path)}


def differences(old, new, where="$", tolerance=(0.0, 0.0)):
    """The places where two JSON values differ by more than they may."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            return [f"{where}: keys {list(old)} are now {list(new)}"]
        for name in ("tolerance", "relative_tolerance"):
            if old.get(name) != new.get(name):
                return [f"{where}.{name}: {old[name]} is now {new[name]}"]
        tolerance = (old.get("tolerance", tolerance[0]), old.get("relative_tolerance", tolerance[1]))
        return [d for key in old for d in differences(old[key], new[key], f"{where}.{key}", tolerance)]
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{where}: {len(old)} entries are now {len(new)}"]
        return [d for i, pair in enumerate(zip(old, new)) for d in differences(*pair, f"{where}[{i}]", tolerance)]
    absolute, relative = tolerance
    if isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, abs_tol=absolute, rel_tol=relative):
        return []
    return [] if type(old) is type(new) and old == new else [f"{where}: {old!r} is now {new!r}"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(GOLDEN)))
def test_golden_made_anew_is_the_committed_one(folder, tmp_path):
    for script in GOLDEN.glob("**/*.py"):
        target = tmp_path / script.relative_to(GOLDEN)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, target)
    copy = tmp_path / folder.relative_to(GOLDEN)
    shutil.copytree(folder, copy, dirs_exist_ok=True, ignore=lambda at, names: [
        name for name in names if is_golden(Path(at, name)) or name == "__pycache__"])
    subprocess.run([sys.executable, "-B", "make_golden.py"], cwd=copy, check=True, timeout=600)
    assert goldens(folder) == goldens(copy) != set()
    for name in goldens(folder):
        old, new = (folder / name).read_bytes(), (copy / name).read_bytes()
        if old == new:
            continue
        assert name.suffix == ".json", f"{folder / name} differs from the one made anew"
        found = differences(json.loads(old), json.loads(new))
        assert not found, f"{folder / name}: {len(found)} differences:\n" + "\n".join(found[:10])


@pytest.mark.parametrize("change, message", [
    (lambda g: g["run"]["loss"].__setitem__(1, 2.0 + 2e-6), "$.run.loss[1]"),
    (lambda g: g["run"]["loss"].append(3.0), "entries"),
    (lambda g: g["run"].pop("name"), "keys"),
    (lambda g: g["run"].__setitem__("loss", None), "None"),
    (lambda g: g.__setitem__("exact", 1.0 + 2.3e-16), "$.exact"),
    (lambda g: g["run"].__setitem__("count", 4), "$.run.count"),
])
def test_a_changed_golden_is_seen(change, message):
    golden = {"exact": 1.0, "run": {"name": "a", "tolerance": 1e-6, "count": 3, "loss": [1.0, 2.0]}}
    changed = json.loads(json.dumps(golden))
    change(changed)
    assert message in "\n".join(differences(golden, changed))


def test_the_last_bits_may_differ_below_a_tolerance():
    assert differences({"tolerance": 1e-6, "loss": [1.0]}, {"tolerance": 1e-6, "loss": [1.0 + 1e-7]}) == []
