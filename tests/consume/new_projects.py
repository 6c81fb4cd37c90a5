#!/usr/bin/env python3
"""Each project that `muster new` writes, as its README says: built, tested, trained on two ranks, resumed, tuned.

    new_projects.py BUILD     works in BUILD/new_projects, which it makes anew

All are built on an installation of BUILD, at the same time.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import compiler_cache

TASKS = ("classify", "regress", "own")


def run(*command, **options):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(project, prefix):
    """By g++, and one of them by clang, where it is there: users have either."""
    clang = shutil.which("clang++-14") if project.name == "my-regress" else None
    compiler = [f"-DCMAKE_CXX_COMPILER={clang}"] if clang else []
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *compiler, *compiler_cache.flags(), cwd=project)
    run("cmake", "--build", "build", cwd=project, env=compiler_cache.environment())


def commands_of(readme):
    """The lines of the README that are commands, as words."""
    return [shlex.split(line) for line in readme.splitlines() if line.startswith("    ")]


def step_of(run_folder):
    return int((run_folder / "latest").read_text().strip().removeprefix("step-"))


def follow(project, bin_folder):
    """Runs what the README says of the built program, and looks at what is left."""
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    lines = [words for words in commands_of((project / "README.md").read_text()) if words[0] not in ("cmake", "ctest")]
    assert len(lines) == 7, lines
    said = [run(*words, cwd=project, env=env) for words in lines]
    assert "steps" in said[0], said[0]  # --explain
    for text in said[1:4]:
        assert re.search(r"test loss [0-9.]+, \w+ [0-9.]+", text), text
    assert re.match(r"loss [0-9.]+", said[4]), said[4]  # evaluate
    predictions = (project / "predictions.csv").read_text().splitlines()
    assert len(predictions) == 1 + 200, f"{len(predictions)} lines of predictions"
    per_epoch = step_of(project / "runs/a") // 8
    assert step_of(project / "runs/b") == 12 * per_epoch, "resumed to 12 epochs"
    # The tuner's result: the study, and four trials that ended.
    database = project / f"{project.name}.db"
    trials = run("muster", "study", "export", database, cwd=project, env=env).strip().splitlines()
    assert len(trials) == 1 + 4, trials
    assert all("COMPLETE" in line for line in trials[1:]), trials
    print(f"{project.name}: {said[3].strip().splitlines()[-1]}; {len(trials) - 1} trials")


def refusals(muster, work):
    """A folder with something in it stays as it is."""
    full = work / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    done = subprocess.run([muster, "new", full], capture_output=True, text=True)
    assert done.returncode == 2 and "not empty" in done.stderr, done.stderr
    assert [file.name for file in full.iterdir()] == ["file"]


def main(build_folder):
    muster = build_folder / "bin/muster"
    work = build_folder / "new_projects"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    prefix = work / "prefix"
    run("cmake", "--install", build_folder, "--prefix", prefix)
    projects = [work / f"my-{task}" for task in TASKS]
    for task, project in zip(TASKS, projects):
        run(muster, "new", project, "--task", task)
        assert sorted(file.name for file in project.iterdir()) == [".gitignore", "CMakeLists.txt", "README.md", "main.cpp"]
        for file in project.iterdir():
            assert "PROJECT_" not in file.read_text(), file
        assert len((project / "main.cpp").read_text().splitlines()) <= 80, f"{task}: main.cpp is longer than 80 lines"
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda project: build(project, prefix), projects))
    for project in projects:
        for _ in range(2):  # the second time trains anew, too
            run("ctest", "--test-dir", "build", "--output-on-failure", cwd=project)
        follow(project, prefix / "bin")
    refusals(muster, work)
    shutil.rmtree(work)


main(pathlib.Path(sys.argv[1]).resolve())
