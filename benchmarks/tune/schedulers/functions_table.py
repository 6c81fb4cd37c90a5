#!/usr/bin/env python3
"""The table of docs/benchmarks.md, "Functions with a budget", from what replay_functions printed.

    .venv/bin/python benchmarks/tune/schedulers/functions_table.py RUNS.csv [--write-docs]

Two searchers are compared seed by seed under the same scheduler: the share of seeds in which the one had less regret, a tie counting
half, and Wilcoxon's signed-rank test, ties by Pratt.
"""
import csv
import datetime
import itertools
import statistics
import sys
from pathlib import Path

from replay_table import MODELS, SCHEDULERS, mark, paired

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "peers"))
from report import machine, write_docs  # noqa: E402

AFTER = ("10", "30", "90")


def read(path):
    """{(function, scheduler, searcher): {seed: row}}"""
    cells = {}
    with open(path) as lines:
        for row in csv.DictReader(lines):
            cells.setdefault((row["function"], row["scheduler"], row["searcher"]), {})[int(row["seed"])] = row
    return cells


def regret(row, after):
    seen = float(row[f"after {after}"])
    return seen if seen == seen else float("inf")  # no trial had the whole budget yet


def difference(one, other):
    return 0.0 if one == other else min(max(other - one, -1e300), 1e300)


def beside(one, other, after):
    seeds = sorted(one.keys() & other.keys())
    return paired([difference(regret(one[seed], after), regret(other[seed], after)) for seed in seeds])


def medians(cell):
    return " / ".join(f"{statistics.median(regret(row, after) for row in cell.values()):.3g}" for after in AFTER)


def table(cells):
    lines = ["| function | scheduler | `random`: regret after 10 / 30 / 90 | `tpe` | `bohb` | `tpe` beside `random` | `bohb` beside `random` |",
             "|---" * 7 + "|"]
    for function, scheduler in itertools.product(dict.fromkeys(key[0] for key in cells), SCHEDULERS):
        of = {searcher: cells[function, scheduler, searcher] for searcher in ("random", *MODELS)}
        shares = [" / ".join(mark(*beside(of[model], of["random"], after)) for after in AFTER) for model in MODELS]
        lines.append(f"| {function} | {SCHEDULERS[scheduler]} | {' | '.join([*map(medians, of.values()), *shares])} |")
    return lines


def summary(cells):
    functions = list(dict.fromkeys(key[0] for key in cells))
    for scheduler, model in itertools.product(SCHEDULERS, MODELS):
        words = []
        for after in AFTER:
            results = [beside(cells[one, scheduler, model], cells[one, scheduler, "random"], after) for one in functions]
            better, worse = (sum((share > 0.5) == up and p < 0.05 for share, p in results) for up in (True, False))
            words.append(f"after {after} better on {better}, worse on {worse} of {len(results)} ({statistics.mean(s for s, _ in results):.0%} of seeds)")
        yield f"- `{model}` beside `random`, scheduler {SCHEDULERS[scheduler]}, significantly: {'; '.join(words)}."


def main():
    path = next(word for word in sys.argv[1:] if not word.startswith("--"))
    cells = read(path)
    seeds = {len(cell) for cell in cells.values()}
    if len(seeds) != 1:
        sys.exit(f"functions_table: {path} is not whole: seeds {sorted(seeds)}")
    workers = {row["workers"] for cell in cells.values() for row in cell.values()}
    text = "\n".join([
        f"{datetime.date.today()}, {machine()}; {seeds.pop()} seeds, {', '.join(sorted(workers))} workers:",
        "`build/bin/replay_functions > functions.csv`, `benchmarks/tune/schedulers/functions_table.py functions.csv --write-docs`", "",
        *table(cells), "", *summary(cells)])
    if "--write-docs" in sys.argv:
        write_docs("tune_budgets", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
