"""JPEG and PNG to RGB: Muster beside Pillow, on a photograph of 640 x 427 that scikit-learn carries.

    .venv/bin/python benchmarks/data/decode/run.py [--pairs 7] [--count 60] [--build build] [--write-docs]

One thread on each side, both on the same core, in turn, each in a process of its own; processor time. A run is refused if the sides'
pixels differ.
"""

import argparse
import datetime
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from PIL import Image, features

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from report import load_average, machine, write_docs  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="timed runs of each side (default: 7)")
    parser.add_argument("--count", type=int, default=60, help="images decoded in a run (default: 60)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def write_images(folder):
    """The photograph as it is, and packed otherwise."""
    data = (resources.files("sklearn") / "datasets" / "images" / "china.jpg").read_bytes()
    with Image.open(io.BytesIO(data)) as image:
        image.load()
    files = {"JPEG as it is": folder / "own.jpg", "JPEG q75, 4:2:0": folder / "q75.jpg", "JPEG q90, 4:4:4": folder / "q90.jpg",
             "progressive JPEG q75, 4:2:0": folder / "progressive.jpg", "PNG": folder / "photograph.png"}
    files["JPEG as it is"].write_bytes(data)
    image.save(files["JPEG q75, 4:2:0"], quality=75, subsampling=2)
    image.save(files["JPEG q90, 4:4:4"], quality=90, subsampling=0)
    image.save(files["progressive JPEG q75, 4:2:0"], quality=75, subsampling=2, progressive=True)
    image.save(files["PNG"])
    return files


def run_once(command):
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(["taskset", "-c", str(core), *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"decode: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(program, file, options):
    runs = {"ours": [], "theirs": []}
    for _ in range(options.pairs):
        runs["ours"].append(run_once([program, file, options.count]))
        runs["theirs"].append(run_once([sys.executable, HERE / "peer.py", file, options.count]))
    if len({run["sum"] for side in runs.values() for run in side}) != 1:
        sys.exit(f"decode: the sides' pixels differ: {file}")
    return runs


def milliseconds(runs, row):
    values = sorted(run[row] * 1e3 for run in runs)
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def rows(name, runs):
    for row, what in {"whole": "whole", "region": "224 x 224 of the middle"}.items():
        ours, theirs = (statistics.median(run[row] for run in runs[side]) for side in ("ours", "theirs"))
        yield f"| {name} | {what} | {milliseconds(runs['ours'], row)} | {milliseconds(runs['theirs'], row)} | {theirs / ours:.2f} |"


def main():
    options = parse_arguments()
    load = load_average("decode")
    build = ROOT / options.build
    subprocess.run(["cmake", "--build", build, "--target", "decode_speed"], check=True, stdout=subprocess.DEVNULL)
    lines = [f"{datetime.date.today()}, {machine()}, load average {load:.1f} before. Pillow {features.version('pil')} with libjpeg-turbo "
             f"{features.version('libjpeg_turbo')}. Processor time: medians and quartiles of {options.pairs} runs of {options.count} images.", "",
             "| milliseconds | part | Muster | Pillow | theirs / ours |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, file in write_images(Path(folder)).items():
            lines += rows(name, measure(build / "bin" / "decode_speed", file, options))
    print("\n".join(lines))
    if options.write_docs:
        write_docs("decode", "\n".join(lines))


main()
