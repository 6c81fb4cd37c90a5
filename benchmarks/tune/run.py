"""Our searchers beside their peers: how good what they find is, and what a suggestion costs.

    .venv/bin/python benchmarks/tune/run.py quality [--searchers 'tpe;gp'] [--seeds 60] [--peer-seeds 20] [--trials 100] [--slots 1]
        [--problems …] [--tables FOLDER] [--our-runs FILE] [--peer-runs FILE] [--write-docs BLOCK]
    .venv/bin/python benchmarks/tune/run.py cost [--searchers 'tpe;gp'] [--rounds 3] [--most-trials 10000] [--write-docs BLOCK]

Both sides search the same functions (problems.h, peer.py) with seeds of their own. Per problem, Mann-Whitney's U says whether
the regrets after the last trial differ (5 %, two-sided), and how often a run of ours is better than a run of the peer's; a sign
test over the problems says whether one side is better on the whole. Of the same searcher twice, two in ten problems may well
differ at 5 % with 20 seeds, and medians by a third: look again with fresh seeds (--first-seed) before looking for a cause.
--tables takes the problems that tables/make.py wrote into a folder. --our-runs and --peer-runs FILE keep the runs (CSV) there, and take them from there the next time; a searcher that is there is not
run again. Costs are processor time of one thread, ours and the peer's in turn. --write-docs puts the tables into that block of
docs/benchmarks.md.
"""
import argparse
import csv
import datetime
import importlib.metadata
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from report import load_average, machine, write_docs  # noqa: E402

# Our searcher, the peer's sampler (of peer.py, or peer_bohb.py), and the peer's name in the table.
PEERS = {"random": ("random", "Optuna's random"), "gp": ("gp", "Optuna's GP"), "tpe": ("tpe", "Optuna's TPE"),
         "auto": ("tpe", "Optuna's default"), "cma_es": ("cma_es", "Optuna's CMA-ES"), "bohb": ("bohb", "HpBandSter's BOHB"),
         "cma_es:margin=false": ("cma_es", "Optuna's CMA-ES"), "tpe:group=true": ("tpe:group=true", "Optuna's TPE, group"),
         "tpe:multivariate=false": ("tpe:multivariate=false", "Optuna's TPE, univariate")}
ENGINES = {"cma_es": "cmaes", "bohb": "hpbandster"}  # packages beside Optuna that samplers rest on
COSTS = [("mixed3", 100), ("mixed3", 1000), ("mixed3", 10000), ("float20", 1000), ("float20", 10000)]
MOST_TRIALS = {"gp": 1000, "bohb": 1000}  # that a peer is timed with: more takes it minutes
PEER_SUGGESTIONS = {"gp": 5}  # else 20
SPACES = {"mixed3": "3 mixed dimensions", "float20": "20 float dimensions"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_subparsers(dest="which", required=True)
    quality, cost = which.add_parser("quality"), which.add_parser("cost")
    for one in (quality, cost):
        one.add_argument("--searchers", default="tpe", help="separated by semicolons (default: tpe)")
        one.add_argument("--build", default="build", help="build folder (default: build)")
        one.add_argument("--write-docs", metavar="BLOCK", help="put the tables into this block of docs/benchmarks.md")
    quality.add_argument("--seeds", type=int, default=60, help="of ours: they cost little (default: 60)")
    quality.add_argument("--peer-seeds", type=int, default=20, help="(default: 20)")
    quality.add_argument("--first-seed", type=int, default=0)
    quality.add_argument("--trials", type=int, default=100)
    quality.add_argument("--slots", type=int, default=1, help="trials under way at once")
    quality.add_argument("--problems", default="", help="separated by commas (default: all)")
    quality.add_argument("--tables", help="a folder of tables/make.py")
    quality.add_argument("--our-runs", help="a CSV file of our runs")
    quality.add_argument("--peer-runs", help="a CSV file of the peers' runs")
    cost.add_argument("--most-trials", type=int, default=10000, help="(default: 10000)")
    cost.add_argument("--rounds", type=int, default=3, help="of which the median is taken (default: 3)")
    return parser.parse_args()


def output_of(words):
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=os.environ | one_thread)
    if done.returncode != 0:
        sys.exit(f"tune: {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def regrets(lines):
    """{(problem, searcher, after): [regret, …]}"""
    out = {}
    for line in lines:
        out.setdefault((line["problem"], line["searcher"], int(line["after"])), []).append(float(line["regret"]))
    return out


def check_functions(programs, tables):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(output_of([programs / "tune_quality", "--check", *tables]))
        file.flush()
        output_of([sys.executable, HERE / "peer.py", *tables, "check", file.name])


def peer_script(sampler):
    return HERE / ("peer_bohb.py" if sampler == "bohb" else "peer.py")


def kept_runs(file, names, make):
    """Regrets of the file's runs and of those that `make` makes for each of `names` that the file lacks."""
    lines = rows(Path(file).read_text()) if file and Path(file).exists() else []
    for name in sorted(set(names) - {line["searcher"] for line in lines}):
        print(f"tune: {name}", file=sys.stderr, flush=True)
        lines += rows(make(name))
        if file:
            text = io.StringIO()
            writer = csv.DictWriter(text, ["problem", "searcher", "seed", "after", "regret"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
            Path(file).write_text(text.getvalue())
    return regrets(lines)


def tables_flag(arguments):
    return ["--tables", arguments.tables] if getattr(arguments, "tables", None) else []


def measure(arguments, programs, searchers):
    flags = ["--trials", arguments.trials, "--first-seed", arguments.first_seed]
    for problem in filter(None, arguments.problems.split(",")):
        flags += ["--problem", problem]
    slots, tables = ["--slots", arguments.slots], tables_flag(arguments)
    ours = kept_runs(arguments.our_runs, searchers, lambda name: output_of(
        [programs / "tune_quality", "--searcher", name, "--seeds", arguments.seeds, *flags, *slots, *tables]))
    theirs = kept_runs(arguments.peer_runs, [PEERS[searcher][0] for searcher in searchers], lambda name: output_of(
        [sys.executable, peer_script(name), *tables, "quality", *(["--sampler", name, *slots] if name != "bohb" else []),
         "--seeds", arguments.peer_seeds, *flags]))
    return ours, theirs


def show(value):
    return f"{value:.3g}"


def compared(ours, theirs):
    """(word, p, share): "less" regret than the peer's, "more", or "even"; of pairs, those where ours has less."""
    test = stats.mannwhitneyu(ours, theirs, alternative="two-sided")
    share = 1 - test.statistic / len(ours) / len(theirs)
    return ("even" if test.pvalue >= 0.05 else "less" if share > 0.5 else "more"), test.pvalue, share


def quality_table(our_runs, their_runs, searchers, last):
    lines = ["| problem | searcher | regret, median after 25 / 50 / 100 (seeds) | peer | its regret (seeds) | "
             f"after {last}: ours is | p | ours is the better one of two runs in |", "|---" * 8 + "|"]
    summaries = []
    afters = [after for after in (25, 50, 100) if after <= last]
    for searcher in searchers:
        sampler, name = PEERS[searcher]
        words, shares, medians = [], [], []
        for problem in dict.fromkeys(problem for problem, who, _ in our_runs if who == searcher):
            if (problem, sampler, last) not in their_runs:
                continue
            ours, theirs = ([runs[problem, who, after] for after in afters] for runs, who in ((our_runs, searcher), (their_runs, sampler)))
            word, p, share = compared(ours[-1], theirs[-1])
            words.append(word)
            shares.append(share)
            medians.append(statistics.median(ours[-1]) - statistics.median(theirs[-1]))
            shown = [f"{' / '.join(show(statistics.median(one)) for one in side)} ({len(side[-1])})" for side in (ours, theirs)]
            lines.append(f"| {problem} | `{searcher}` | {shown[0]} | {name} | {shown[1]} | {word} | {p:.2g} | {share:.0%} |")
        less, more = sum(sign < 0 for sign in medians), sum(sign > 0 for sign in medians)
        p = stats.binomtest(less, less + more).pvalue if less + more else 1
        decided = [words.count("less"), words.count("more")]
        sure = stats.binomtest(decided[0], sum(decided)).pvalue if sum(decided) else 1
        summaries.append(
            f"- `{searcher}` beside {name}: significantly less regret on {decided[0]}, more on {decided[1]} of {len(words)} "
            f"problems (sign test over these: p = {sure:.2g}); its median is the lower one on {less} and the higher one on {more} (sign test: p = {p:.2g}); it is the better "
            f"one of two runs in {statistics.mean(shares):.0%}.")
    return "\n".join(lines) + "\n\n" + "\n".join(summaries)


def cost_table(programs, searchers, rounds, most_trials):
    lines = ["| space | finished trials | searcher | ms per suggestion | peer | its ms | times ours |", "|---" * 7 + "|"]
    for searcher in searchers:
        sampler, name = PEERS[searcher]
        for space, trials in COSTS:
            if trials > min(most_trials, MOST_TRIALS.get(searcher, trials)):
                continue
            ours, theirs = [], []
            for _ in range(rounds):
                flags = ["--space", space, "--trials", trials]
                ours.append(json.loads(output_of([programs / "suggest_cost", "--searcher", searcher, *flags]))["median_ms"])
                sampler_flags = ["--sampler", sampler] if sampler != "bohb" else []
                sampler_flags += ["--suggestions", PEER_SUGGESTIONS.get(searcher, 20)]
                theirs.append(json.loads(output_of([sys.executable, peer_script(sampler), "cost", *sampler_flags, *flags]))["median_ms"])
            mine, its = statistics.median(ours), statistics.median(theirs)
            lines.append(f"| {SPACES[space]} | {trials:,} | `{searcher}` | {mine:.3g} | {name} | {its:.3g} | {its / mine:.3g} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def peer_versions(searchers):
    packages = ["optuna"] + [package for sampler, package in ENGINES.items() if sampler in {PEERS[one][0] for one in searchers}]
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


def main():
    arguments = parse_arguments()
    load = load_average("tune")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "tune_quality", "suggest_cost"], check=True,
                   stdout=sys.stderr)
    programs, searchers = (ROOT / arguments.build / "bin").resolve(), arguments.searchers.split(";")
    check_functions(programs, tables_flag(arguments))
    words = " ".join(f"'{word}'" if ";" in word else word for word in sys.argv[1:])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; {peer_versions(searchers)}:\n"
            f"`benchmarks/tune/run.py {words}`\n\n")
    if arguments.which == "quality":
        text += quality_table(*measure(arguments, programs, searchers), searchers, arguments.trials)
    else:
        text += cost_table(programs, searchers, arguments.rounds, arguments.most_trials)
    print(text)
    if arguments.write_docs:
        write_docs(arguments.write_docs, text)


if __name__ == "__main__":
    main()
