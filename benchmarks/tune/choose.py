"""What `searcher = "auto"` rests on: which searcher is best for which kind of problem, number of trials and slots.

    .venv/bin/python benchmarks/tune/choose.py 1=RUNS.csv 4=RUNS.csv 16=RUNS.csv [--write-docs]

Each file has what `tune_quality --slots N` printed, for any searchers (several files may have the same N). Of each problem, all
runs of each searcher are compared with all runs of each other one; a searcher's share is how often its run had less regret (a tie
counts half), averaged over the others and over the problems of the kind. 50 % is the middle; the largest share is set in bold.
"""
import csv
import datetime
import itertools
import statistics
import sys
from pathlib import Path

from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from report import machine, write_docs  # noqa: E402

KINDS = {"2 to 6 numbers": ["branin", "hartmann6", "ackley5", "rosenbrock4", "levy5", "rastrigin5"], "2 numbers, noise": ["noisy_branin"],
         "20 numbers": ["sphere20"], "numbers and a choice": ["network"], "conditions": ["tree"], "6 choices": ["choices6"]}
AFTER = (25, 50, 100, 400)
FEWEST = 5  # runs of a searcher on a problem


def read(words):
    """{(slots, problem, after): {searcher: [regret, …]}}"""
    runs = {}
    for word in words:
        slots, file = word.split("=", 1)
        with open(file) as lines:
            for line in csv.DictReader(lines):
                key = int(slots), line["problem"], int(line["after"])
                runs.setdefault(key, {}).setdefault(line["searcher"], []).append(float(line["regret"]))
    return runs


def shares(of):
    """{searcher: how often it is the better one of two runs}"""
    better = {searcher: [] for searcher in of}
    for a, b in itertools.combinations(of, 2):
        share = 1 - stats.mannwhitneyu(of[a], of[b]).statistic / len(of[a]) / len(of[b])
        better[a].append(share)
        better[b].append(1 - share)
    return {searcher: statistics.mean(each) for searcher, each in better.items() if each}


def table(runs):
    searchers = sorted({searcher for of in runs.values() for searcher in of})
    lines = [f"| problems | trials | slots | {' | '.join(f'`{searcher}`' for searcher in searchers)} |", "|---" * (3 + len(searchers)) + "|"]
    for (kind, problems), after, slots in itertools.product(KINDS.items(), AFTER, sorted({slots for slots, _, _ in runs})):
        each = []
        for problem in problems:
            of = {searcher: made for searcher, made in runs.get((slots, problem, after), {}).items() if len(made) >= FEWEST}
            if len(of) > 1:
                each.append(shares(of))
        if not each:
            continue
        mean = {searcher: statistics.mean(one[searcher] for one in each) for searcher in searchers if all(searcher in one for one in each)}
        best = max(mean.values())
        cells = ["" if searcher not in mean else f"**{mean[searcher]:.0%}**" if mean[searcher] == best else f"{mean[searcher]:.0%}"
                 for searcher in searchers]
        lines.append(f"| {kind} | {after} | {slots} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    words = [word for word in sys.argv[1:] if word != "--write-docs"]
    if not words:
        sys.exit(__doc__)
    text = f"{datetime.date.today()}, {machine()}:\n`benchmarks/tune/choose.py {' '.join(words)}`\n\n{table(read(words))}"
    print(text)
    if "--write-docs" in sys.argv:
        write_docs("tune_auto", text)


if __name__ == "__main__":
    main()
