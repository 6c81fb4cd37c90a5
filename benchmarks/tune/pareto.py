"""Several objectives: the peer's side of pareto_quality.cpp (the same problems under Optuna's NSGA-II), and the table of both.

    pareto.py check LINES                                     compares the functions with what `pareto_quality --check` printed into LINES
    pareto.py quality [--problem NAME …] [--trials 400] [--seeds 20] [--first-seed 0]     prints pareto_quality's CSV, as `optuna`
    pareto.py table RUNS.csv … [--write-docs]

The table has the median over the seeds of the share of the volume that the best front of all dominates: of a closed form where there is
one, else of a fine grid of the front. Two searchers are compared by the runs of both on each problem: Mann-Whitney's U.
"""
import argparse
import csv
import datetime
import itertools
import json
import math
import statistics
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "peers"), str(Path(__file__).resolve().parent)]

PI = math.pi
AFTER = (50, 100, 200, 400, 800)


def cube(n, low, high):
    def space(trial):
        return {f"x{i}": trial.suggest_float(f"x{i}", *((0, 1) if i == 0 else (low, high))) for i in range(n)}
    return space


def xs(config):
    return [config[f"x{i}"] for i in range(len(config))]


def zdt(second):
    """zdt1 to zdt3, of which only the shape of the second objective differs."""
    def values(config):
        first, *rest = xs(config)
        g = 1 + 9 * sum(rest) / len(rest)
        return first, g * second(first, first / g)
    return values


def zdt4(config):
    first, *rest = xs(config)
    g = 1 + 10 * len(rest) + sum(x * x - 10 * math.cos(4 * PI * x) for x in rest)
    return first, g * (1 - math.sqrt(first / g))


def zdt6(config):
    x, *rest = xs(config)
    first = 1 - math.exp(-4 * x) * math.sin(6 * PI * x) ** 6
    g = 1 + 9 * (sum(rest) / len(rest)) ** .25
    return first, g * (1 - (first / g) ** 2)


def dtlz2(config):
    x, y, *rest = xs(config)
    g = sum((z - .5) ** 2 for z in rest)
    a, b = x * PI / 2, y * PI / 2
    return (1 + g) * math.cos(a) * math.cos(b), (1 + g) * math.cos(a) * math.sin(b), (1 + g) * math.sin(a)


def network2(config):
    from peer import network
    return network(config), math.log2(config["l1"])


def tree2(config):
    from peer import tree
    return tree(config), sum(math.log2(config[name]) for name in ("width1", "width2", "width3") if name in config)


def network_space(trial):
    from peer import network_space as space
    return space(trial)


def tree_space(trial):
    from peer import tree_space as space
    return space(trial)


PROBLEMS = {
    "zdt1": (cube(30, 0, 1), zdt(lambda f, share: 1 - math.sqrt(share)), (1, 10)),
    "zdt2": (cube(30, 0, 1), zdt(lambda f, share: 1 - share ** 2), (1, 10)),
    "zdt3": (cube(30, 0, 1), zdt(lambda f, share: 1 - math.sqrt(share) - share * math.sin(10 * PI * f)), (1, 10)),
    "zdt4": (cube(10, -5, 5), zdt4, (1, 260)),
    "zdt6": (cube(10, 0, 1), zdt6, (1, 10)),
    "dtlz2": (cube(12, 0, 1), dtlz2, (2.5, 2.5, 2.5)),
    "network2": (network_space, network2, (2, 8)),
    "tree2": (tree_space, tree2, (2, 27)),
}


def volume(values, reference):
    import numpy
    from optuna._hypervolume import compute_hypervolume
    inside = [v for v in values if all(a <= b for a, b in zip(v, reference))]
    return float(compute_hypervolume(numpy.array(inside), numpy.array(reference, dtype=float))) if inside else 0.0


def check(arguments):
    seen = {}
    for line in open(arguments.lines):
        ours = json.loads(line)
        _, value, reference = PROBLEMS[ours["problem"]]
        theirs = value(ours["config"])
        seen.setdefault(ours["problem"], []).append(theirs)
        theirs_all = [*theirs, volume(seen[ours["problem"]], reference)]
        for a, b in zip(theirs_all, [*ours["values"], ours["volume"]], strict=True):
            if abs(a - b) > 1e-9 * max(1, abs(a)):
                sys.exit(f"{ours['problem']}: {ours['config']} is {theirs_all} here, {ours['values']}, {ours['volume']} in C++")
    print(f"{len(seen)} problems are the same")


def quality(arguments):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print("problem,searcher,seed,after,volume")
    for name in arguments.problem or PROBLEMS:
        space, value, reference = PROBLEMS[name]
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            study = optuna.create_study(directions=["minimize"] * len(reference), sampler=optuna.samplers.NSGAIISampler(seed=seed))
            seen = []
            for number in range(1, arguments.trials + 1):
                trial = study.ask()
                seen.append(value(space(trial)))
                study.tell(trial, seen[-1])
                if number in AFTER:
                    print(f"{name},optuna,{seed},{number},{volume(seen, reference)!r}", flush=True)


def best_volumes():
    """What the best front of all dominates; of tree2, which has no closed form, the most that was found."""
    def grid(points, reference):
        return volume(points, reference)
    steps = 20000
    zdt3 = [(f, 1 - math.sqrt(f) - f * math.sin(10 * PI * f)) for f in (i / steps for i in range(steps + 1))]
    # zdt6's first objective begins at its least, where x is about 0.0814.
    least = min(1 - math.exp(-4 * i / 1e6) * math.sin(6 * PI * i / 1e6) ** 6 for i in range(10**6 + 1))
    from peer import network
    sizes = [(min(network({"lr": 10 ** (u / 500 - 4), "l1": 2 ** k, "batch_size": b}) for u in range(1501) for b in (2, 4, 8, 16)), k)
             for k in range(2, 9)]
    return {"zdt1": 10 - 1 / 3, "zdt2": 10 - 2 / 3, "zdt3": grid(zdt3, (1, 10)), "zdt4": 260 - 1 / 3,
            "zdt6": 10 * (1 - least) - (1 - least) + (1 - least ** 3) / 3, "dtlz2": 2.5 ** 3 - PI / 6, "network2": grid(sizes, (2, 8))}


def table(arguments):
    from scipy import stats
    from report import machine, write_docs
    runs = {}
    for path in arguments.runs:
        with open(path) as lines:
            for row in csv.DictReader(lines):
                of = runs.setdefault((row["problem"], int(row["after"])), {})
                of.setdefault(row["searcher"], {})[int(row["seed"])] = float(row["volume"])  # once, in however many files it is
    runs = {key: {name: list(each.values()) for name, each in of.items()} for key, of in runs.items()}
    searchers = sorted({name for of in runs.values() for name in of}, key=lambda name: (name == "optuna", name))
    best = best_volumes()
    best["tree2"] = max(itertools.chain(*(each for (name, _), of in runs.items() if name == "tree2" for each in of.values())))
    named = {"optuna": "Optuna's default (NSGA-II)"}
    lines = ["| problem | trials | " + " | ".join(named.get(name, f"`{name}`") for name in searchers) + " |", "|---" * (2 + len(searchers)) + "|"]
    wins = {}
    for problem, after in itertools.product(PROBLEMS, AFTER):
        of = runs.get((problem, after))
        if of is None:
            continue
        shares = {name: statistics.median(of[name]) / best[problem] for name in searchers if name in of}
        most = max(shares.values())
        cells = [f"**{shares[name]:.4f}**" if shares.get(name) == most and len(shares) > 1 else f"{shares[name]:.4f}" if name in shares else "" for name in searchers]
        lines.append(f"| {problem} | {after} | {' | '.join(cells)} |")
        for one, other in itertools.permutations(shares, 2):
            if len(of[one]) > 4 and len(of[other]) > 4:
                p = stats.mannwhitneyu(of[one], of[other], alternative="greater").pvalue
                wins.setdefault((one, other, after), []).append(p < 0.025)
    lines.append("")
    for one, other in itertools.combinations(searchers, 2):
        each = [f"after {after} on {sum(wins[one, other, after])}, less on {sum(wins[other, one, after])} of {len(wins[one, other, after])}"
                for after in AFTER if (one, other, after) in wins]
        lines.append(f"- `{one}` beside {named.get(other, f'`{other}`')}: significantly more volume {'; '.join(each)}.")
    counts = {name: sorted({len(of[name]) for of in runs.values() if name in of}) for name in searchers}
    counts = "; ".join(f"{named.get(name, f'`{name}`')} {'–'.join(str(n) for n in sorted({each[0], each[-1]}))}" for name, each in counts.items())
    text = "\n".join([f"{datetime.date.today()}, {machine()}; seeds: {counts}:",
                      arguments.command, "", *lines])
    write_docs("tune_pareto", text) if arguments.write_docs else print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("check")
    one.add_argument("lines")
    one.set_defaults(run=check)
    one = commands.add_parser("quality")
    one.add_argument("--problem", action="append")
    one.add_argument("--trials", type=int, default=400)
    one.add_argument("--seeds", type=int, default=20)
    one.add_argument("--first-seed", type=int, default=0)
    one.set_defaults(run=quality)
    one = commands.add_parser("table")
    one.add_argument("runs", nargs="+")
    one.add_argument("--write-docs", action="store_true")
    one.add_argument("--command", default="`benchmarks/tune/pareto.py table RUNS.csv …`")
    one.set_defaults(run=table)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
