"""Overhead of the tuner in instructions, which a busy machine does not change: the gate against getting slower.

The cost of one trial is the difference of two runs of tune_overhead under callgrind. The limits are about a fifth above what
was measured (g++ 12, release). A change that needs more should say why, here: since 2026-11-22 each report looks at the
stop token and the time budget, and a stored one is a transaction of its own that others' may precede.
"""

import re
import shutil
import subprocess

import pytest

LIMITS = {  # instructions per trial
    "trials": (18_500, [], (200, 700)),                                         # 15,200: one report, in memory
    "reports": (72_000, [], (200, 700)),                                        # 62,700: 20 reports, in memory; 70,400 since outlines ask
    "persisted": (1_300_000, ["--storage", "study.db"], (20, 60)),              # 1,075,000: 20 reports, SQLite
}


def instructions(words, folder):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *words], cwd=folder,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


@pytest.mark.parametrize("case", LIMITS)
def test_a_trial_takes_no_more_instructions_than_it_did(case, program, tmp_path):
    assert shutil.which("valgrind"), "valgrind is not there\nhint: scripts/setup.sh installs it"
    limit, more, sizes = LIMITS[case]
    counts = []
    for trials in sizes:
        folder = tmp_path / str(trials)
        folder.mkdir()
        which = "trials" if case == "trials" else "reports"
        counts.append(instructions([program("tune_overhead"), which, "--trials", str(trials), *more], folder))
    each = (counts[1] - counts[0]) / (sizes[1] - sizes[0])
    print(f"{case}: {each:,.0f} instructions per trial")
    assert each < limit
