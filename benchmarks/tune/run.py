"""Our searchers beside their peers: how good what they find is, and what a suggestion costs.

    .venv/bin/python benchmarks/tune/run.py [--searchers tpe,random] [--seeds 20] [--trials 100] [--slots 1] [--problems …]
        [--peer-runs FILE] [--no-cost] [--write-docs]

Both sides search the same functions (problems.h, peer.py) with seeds of their own. Per problem, Mann-Whitney's U says whether
the regrets after the last trial differ (5 %, two-sided); a sign test over the medians of all problems whether one side is
better on the whole. --peer-runs FILE keeps the peers' CSV there, and takes it from there the next time. --write-docs puts the
tables into docs/benchmarks.md.
"""
import argparse
import csv
import datetime
import importlib.metadata
import io
import json
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

# Our searcher, the peer's sampler (peer.py), and the peer's name in the table.
PEERS = {"random": ("random", "Optuna's random"), "gp": ("gp", "Optuna's GP"), "tpe": ("tpe", "Optuna's TPE"),
         "tpe:group=true": ("tpe:group=true", "Optuna's TPE, group"),
         "tpe:multivariate=false": ("tpe:multivariate=false", "Optuna's TPE, univariate")}
COSTS = [("mixed3", 100), ("mixed3", 1000), ("mixed3", 10000), ("float20", 1000), ("float20", 10000)]
SPACES = {"mixed3": "3 mixed dimensions", "float20": "20 float dimensions"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searchers", default="tpe", help="separated by semicolons (default: tpe)")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--slots", type=int, default=1, help="trials under way at once")
    parser.add_argument("--problems", default="", help="separated by commas (default: all)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--peer-runs", help="a CSV file of the peers' runs: read if it is there, else written")
    parser.add_argument("--no-cost", action="store_true")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    return parser.parse_args()


def output_of(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
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


def check_functions(programs):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(output_of([programs / "tune_quality", "--check"]))
        file.flush()
        output_of([sys.executable, HERE / "peer.py", "check", file.name])


def study_flags(arguments):
    flags = ["--seeds", arguments.seeds, "--trials", arguments.trials, "--slots", arguments.slots]
    for problem in filter(None, arguments.problems.split(",")):
        flags += ["--problem", problem]
    return flags


def measure(arguments, programs, searchers):
    ours = [word for searcher in searchers for word in ("--searcher", searcher)]
    our_runs = regrets(rows(output_of([programs / "tune_quality", *ours, *study_flags(arguments)])))
    kept = Path(arguments.peer_runs) if arguments.peer_runs else None
    lines = rows(kept.read_text()) if kept and kept.exists() else []
    for sampler in {PEERS[searcher][0] for searcher in searchers} - {line["searcher"] for line in lines}:
        print(f"tune: Optuna's {sampler}", file=sys.stderr, flush=True)
        lines += rows(output_of([sys.executable, HERE / "peer.py", "quality", "--sampler", sampler, *study_flags(arguments)]))
    if kept:
        text = io.StringIO()
        writer = csv.DictWriter(text, ["problem", "searcher", "seed", "after", "regret"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        kept.write_text(text.getvalue())
    return our_runs, regrets(lines)


def show(value):
    return f"{value:.3g}"


def verdict(ours, theirs):
    """(word, p): "less" regret than the peer's, "more", or "even"."""
    p = stats.mannwhitneyu(ours, theirs, alternative="two-sided").pvalue
    if p >= 0.05:
        return "even", p
    return ("less" if statistics.median(ours) < statistics.median(theirs) else "more"), p


def quality_table(our_runs, their_runs, searchers):
    lines = ["| problem | searcher | regret, median after 25 / 50 / 100 | peer | its regret | after the last: ours is | p |",
             "|---" * 7 + "|"]
    summaries = []
    problems = list(dict.fromkeys(problem for problem, _, _ in our_runs))
    afters = sorted({after for _, _, after in our_runs})
    for searcher in searchers:
        sampler, name = PEERS[searcher]
        words, signs = [], []
        for problem in problems:
            ours = [our_runs[problem, searcher, after] for after in afters]
            theirs = [their_runs[problem, sampler, after] for after in afters]
            word, p = verdict(ours[-1], theirs[-1])
            words.append(word)
            signs.append(statistics.median(ours[-1]) - statistics.median(theirs[-1]))
            medians = [" / ".join(show(statistics.median(one)) for one in side) for side in (ours, theirs)]
            lines.append(f"| {problem} | `{searcher}` | {medians[0]} | {name} | {medians[1]} | {word} | {p:.2g} |")
        less, more = sum(sign < 0 for sign in signs), sum(sign > 0 for sign in signs)
        p = stats.binomtest(less, less + more).pvalue if less + more else 1
        summaries.append(f"`{searcher}` beside {name}: significantly less regret on {words.count('less')}, more on {words.count('more')} of "
                         f"{len(words)} problems; its median is the lower one on {less} and the higher one on {more} (sign test: p = {p:.2g}).")
    return "\n".join(lines) + "\n\n" + "\n".join(summaries)


def cost_table(programs, searchers):
    lines = ["| space | finished trials | searcher | ms per suggestion | peer | its ms | times ours |", "|---" * 7 + "|"]
    for searcher in searchers:
        sampler, name = PEERS[searcher]
        for space, trials in COSTS:
            ours = json.loads(output_of([programs / "suggest_cost", "--searcher", searcher, "--space", space, "--trials", trials]))
            theirs = json.loads(output_of([sys.executable, HERE / "peer.py", "cost", "--sampler", sampler, "--space", space,
                                           "--trials", trials]))
            lines.append(f"| {SPACES[space]} | {trials:,} | `{searcher}` | {ours['median_ms']:.3g} | {name} | {theirs['median_ms']:.3g} | "
                         f"{theirs['median_ms'] / ours['median_ms']:.3g} |")
    return "\n".join(lines)


def main():
    arguments = parse_arguments()
    load = load_average("tune")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "tune_quality", "suggest_cost"], check=True,
                   stdout=sys.stderr)
    programs, searchers = (ROOT / arguments.build / "bin").resolve(), arguments.searchers.split(";")
    check_functions(programs)
    tables = quality_table(*measure(arguments, programs, searchers), searchers)
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; optuna {importlib.metadata.version('optuna')}; "
            f"{arguments.seeds} seeds of {arguments.trials} trials, {arguments.slots} at a time:\n"
            f"`{' '.join(['benchmarks/tune/run.py', *sys.argv[1:]])}`\n\n{tables}")
    if not arguments.no_cost:
        text += "\n\n" + cost_table(programs, searchers)
    print(text)
    if arguments.write_docs:
        write_docs("tune_quality", text)


if __name__ == "__main__":
    main()
