#!/usr/bin/env python3
"""The tables of docs/benchmarks.md, "Schedulers and searchers together", from what replay_curves printed.

    .venv/bin/python benchmarks/tune/schedulers/replay_table.py RUNS.csv [--write-docs]

Regret is the best accuracy of the table of curves less the best one that the study had seen by then, in percentage points; times are in
full trainings (27 epochs of an average network) of all workers together. Two searchers (or schedulers) are compared seed by seed, with
the same machine, workers and scheduler (searcher): the share of seeds in which the one had less regret, a tie counting half, and
Wilcoxon's signed-rank test, ties by Pratt.
"""
import csv
import datetime
import itertools
import statistics
import sys
import warnings
from pathlib import Path

from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "peers"))
from report import machine, write_docs  # noqa: E402

AFTER = ("10", "30", "90")
MACHINES = {"0,0": "quiet", "0.1,0": "stragglers", "0,0.005": "crashes", "0.1,0.005": "both"}
SHOWN = ("0,0", "0.1,0.005")
SCHEDULERS = {"fifo": "none", "asha:max_t=27,reduction_factor=3": "asha", "asha:max_t=27,reduction_factor=3,variant=promotion":
              "asha, promotion", "hyperband:max_t=27": "hyperband", "median": "median"}
MODELS = ("tpe", "bohb")
WORLDS = {"again seconds": "a network may come again; seconds", "once seconds": "none twice; seconds",
          "again epochs": "a network may come again; epochs", "once epochs": "none twice; epochs"}
MAIN = "again seconds"


def read(paths):
    """{(world, machine, workers, scheduler, searcher): {seed: row}}"""
    cells = {}
    for path in paths:
        with open(path) as lines:
            for row in csv.DictReader(lines):
                key = f"{row['networks']} {row['clock']}", row["machine"], int(row["workers"]), row["scheduler"], row["searcher"]
                cells.setdefault(key, {})[int(row["seed"])] = row
    return cells


def accuracy(row, after):
    seen = float(row[f"after {after}"])
    return seen if seen == seen else 0.0  # nothing reported yet


def beside(one, other, after):
    seeds = sorted(one.keys() & other.keys())
    return paired([accuracy(one[seed], after) - accuracy(other[seed], after) for seed in seeds])


def paired(differences):
    """Share of seeds in which the first is better (its difference is above 0), and p."""
    share = statistics.mean(1.0 if d > 0 else 0.5 if d == 0 else 0.0 for d in differences)
    if not any(differences):
        return share, 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return share, stats.wilcoxon(differences, zero_method="pratt").pvalue


def mark(share, p):
    text = f"{share:.0%}"
    return f"**{text}**" if p < 0.001 else f"{text}*" if p < 0.05 else text


def regrets(cell):
    lacks = {after: statistics.median(float(row["best"]) - accuracy(row, after) for row in cell.values()) for after in AFTER}
    return " / ".join(f"{100 * lacks[after]:.2f}" for after in AFTER)


def time_to(cell, within="0.02"):
    middle = statistics.median(float(row[f"to {within}"]) for row in cell.values())
    return "–" if middle == float("inf") else f"{middle:.1f}"


def marks(one, other):
    return " / ".join(mark(*beside(one, other, after)) for after in AFTER)


def searchers_table(cells, first_columns, rows):
    """`rows`: what stands in the first columns, and the setting."""
    lines = [f"| {first_columns} | scheduler | `random`: regret after 10 / 30 / 90; time | `tpe` | `bohb` | `tpe` beside `random` | "
             "`bohb` beside `random` |", "|---" * (first_columns.count("|") + 7) + "|"]
    for (first, setting), scheduler in itertools.product(rows, SCHEDULERS):
        of = {searcher: cells[*setting, scheduler, searcher] for searcher in ("random", *MODELS)}
        numbers = [f"{regrets(cell)}; {time_to(cell)}" for cell in of.values()]
        lines.append(f"| {first} | {SCHEDULERS[scheduler]} | {' | '.join(numbers + [marks(of[model], of['random']) for model in MODELS])} |")
    return lines


def schedulers_table(cells, settings):
    lines = ["| machine | workers | scheduler | `random` | `tpe` | `bohb` |", "|---" * 6 + "|"]
    for (noise, count), scheduler in itertools.product(settings, list(SCHEDULERS)[1:]):
        shares = [marks(cells[MAIN, noise, count, scheduler, searcher], cells[MAIN, noise, count, "fifo", searcher])
                  for searcher in ("random", *MODELS)]
        lines.append(f"| {MACHINES[noise]} | {count} | {SCHEDULERS[scheduler]} | {' | '.join(shares)} |")
    return lines


def counted(pairs, after):
    """Of pairs of cells: in how many the first is significantly better, and worse; the mean share."""
    results = [beside(one, other, after) for one, other in pairs]
    better = sum(share > 0.5 and p < 0.05 for share, p in results)
    worse = sum(share < 0.5 and p < 0.05 for share, p in results)
    return f"better in {better}, worse in {worse} of {len(results)} ({statistics.mean(share for share, _ in results):.0%} of seeds)"


def summary(cells):
    settings = sorted({key[:3] for key in cells if key[0] == MAIN})
    lines = []
    for scheduler, model in itertools.product(SCHEDULERS, MODELS):
        pairs = [(cells[*setting, scheduler, model], cells[*setting, scheduler, "random"]) for setting in settings]
        lines.append(f"- `{model}` beside `random`, scheduler {SCHEDULERS[scheduler]}: " +
                     "; ".join(f"after {after} {counted(pairs, after)}" for after in AFTER) + ".")
    return lines


def main():
    paths = [word for word in sys.argv[1:] if not word.startswith("--")]
    cells = read(paths)
    seeds = {len(cell) for cell in cells.values()}
    if len(seeds) != 1 or len({row["best"] for cell in cells.values() for row in cell.values()}) != 1:
        sys.exit(f"replay_table: {paths} are not whole, or of several tables of curves: seeds {sorted(seeds)}")
    workers = sorted({key[2] for key in cells if key[0] == MAIN})
    shown = [(noise, count) for noise, count in itertools.product(SHOWN, workers) if (MAIN, noise, count, "fifo", "random") in cells]
    others = [(WORLDS[world], (world, "0,0", 4)) for world in list(WORLDS)[1:] if (world, "0,0", 4, "fifo", "random") in cells]
    text = "\n".join([
        f"{datetime.date.today()}, {machine()}; {seeds.pop()} seeds:", COMMANDS, "",
        *searchers_table(cells, "machine | workers", [(f"{MACHINES[noise]} | {count}", (MAIN, noise, count)) for noise, count in shown]),
        "", "The same with 4 workers on a quiet machine, where no network comes twice, or all epochs take the same time:", "",
        *searchers_table(cells, "networks; clock", others),
        "", "Each scheduler beside none, with the same searcher:", "", *schedulers_table(cells, shown),
        "", "Over all machines and numbers of workers, a network may come again, significantly:", "", *summary(cells)])
    if "--write-docs" in sys.argv:
        write_docs("tune_replay", text)
    else:
        print(text)


COMMANDS = """```
zcat benchmarks/tune/learning_curves/curves.csv.gz > curves.csv
replay="build/bin/replay_curves --curves curves.csv --configs benchmarks/tune/learning_curves/configs.csv"
$replay > quiet.csv
$replay --machine 0.1,0.005 --workers 4 --workers 16 > both.csv
$replay --networks once --workers 4 > once.csv
$replay --clock epochs --workers 4 > epochs.csv
$replay --networks once --clock epochs --workers 4 > once-epochs.csv
benchmarks/tune/schedulers/replay_table.py quiet.csv both.csv once.csv epochs.csv once-epochs.csv --write-docs
```"""

if __name__ == "__main__":
    main()
