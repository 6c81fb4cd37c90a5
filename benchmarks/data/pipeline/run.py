"""From files to batches: Muster beside PyTorch's DataLoader, SPDL, TurboLoader and LibTorch's torch::data.

    .venv/bin/python benchmarks/data/pipeline/run.py [--rounds 5] [--epochs 4] [--sides muster,tensor] [--build build] [--write-docs]

Photographs of Debian's package opencv-doc (JPEGs over 30 KB, fetched by apt-get once, into build/opencv-doc) in four class folders: decoded,
random crop to 224, flip, with and without jitter, normalised, in batches of 64. All sides in turn, each run in a process of its own: on one
core without workers, on two with them. Needs spdl and turboloader in .venv: `.venv/bin/pip install --no-deps -r
benchmarks/data/pipeline/requirements.txt`; a side that is not there is left out, and the table says so.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from report import load_average, machine, write_docs  # noqa: E402

CPP = {"muster": "Muster", "torch_data": "LibTorch's `torch::data`, our decoder"}
PYTHON = {"tensor": "DataLoader, torchvision of tensors", "tensor_spawn": "the same, workers by spawn", "pillow": "DataLoader, torchvision of Pillow's",
          "albumentations": "DataLoader, albumentations and OpenCV", "spdl": "SPDL's threads, torchvision of tensors", "turboloader": "TurboLoader"}
SIDES = CPP | PYTHON


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side (default: 5)")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of a run (default: 4)")
    parser.add_argument("--workers", default="0,1,2", help="numbers of workers (default: 0,1,2)")
    parser.add_argument("--sides", default=",".join(SIDES), help=f"of {', '.join(SIDES)}")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    return parser.parse_args()


def photographs(build):
    """The folder of class folders, and FOLDER.tar beside it; made once."""
    base = build / "opencv-doc"
    folder = base / "photographs"
    if (base / "photographs.tar").exists():
        return folder
    base.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "-qq", "opencv-doc"], check=True, cwd=base)
    subprocess.run(["dpkg-deb", "-x", next(base.glob("opencv-doc_*.deb")), base / "package"], check=True)
    files = sorted(path for path in (base / "package").rglob("*.jpg") if path.stat().st_size > 30_000)
    for number, path in enumerate(files):
        to = folder / f"class_{number % 4}" / f"{number:04}.jpg"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    unfinished = base / "photographs.unfinished"
    with tarfile.open(unfinished, "w") as tar:
        for path in sorted(folder.rglob("*.jpg")):
            tar.add(path, path.relative_to(folder))
    unfinished.rename(base / "photographs.tar")
    return folder


def run_once(side, options, folder, workers, jitter):
    cores = sorted(os.sched_getaffinity(0))[:1 if workers == 0 else 2]
    command = [options.build / "bin" / "pipeline_speed"] if side in CPP else [sys.executable, HERE / "peer.py"]
    words = [*command, side, folder, workers, options.epochs, *(["jitter"] if jitter else [])]
    done = subprocess.run(["taskset", "-c", ",".join(map(str, cores)), *map(str, words)], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        print(f"pipeline: {side} with {workers} workers ended with {done.returncode}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def applies(side, workers, jitter):
    if side == "turboloader" and jitter:
        return False  # its fused pass knows none
    if side == "tensor_spawn" and workers == 0:
        return False
    return not (side in ("spdl", "turboloader") and workers == 0)  # they have a thread of their own at least


def number(values, digits=0):
    values = sorted(values)
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def table(runs, workers, jitter):
    measured = {side: runs[side, workers, jitter] for side in SIDES if runs.get((side, workers, jitter))}
    rate = {side: [run["images"] / run["seconds"] for run in of] for side, of in measured.items()}
    lines = [f"{'With' if jitter else 'Without'} jitter, {workers} worker{'' if workers == 1 else 's'}:", "",
             "| side | images a second | Muster / theirs | first batch, ms | processor s per 1,000 images | peak MiB |", "|---|---|---|---|---|---|"]
    for side, of in measured.items():
        images = of[0]["images"] + 64
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rate["muster"], rate[side])) if "muster" in rate else float("nan")
        lines.append(f"| {SIDES[side]} | {number(rate[side])} | {'' if side == 'muster' else f'{ratio:.2f}'} | "
                     f"{number([run['first_batch'] * 1e3 for run in of])} | {number([run['processor'] / images * 1e3 for run in of], 2)} | "
                     f"{statistics.median(run['peak_mib'] for run in of):,.0f} |")
    return [*lines, ""]


def main():
    options = parse_arguments()
    options.build = ROOT / options.build
    load = load_average("pipeline")
    subprocess.run(["cmake", "--build", options.build, "--target", "pipeline_speed"], check=True, stdout=subprocess.DEVNULL)
    folder = photographs(options.build)
    count = sum(1 for _ in folder.rglob("*.jpg"))
    sides, runs = options.sides.split(","), {}
    cases = [(workers, jitter) for jitter in (False, True) for workers in map(int, options.workers.split(","))]
    for _ in range(options.rounds):
        for workers, jitter in cases:
            for side in sides:
                run = run_once(side, options, folder, workers, jitter) if applies(side, workers, jitter) else None
                if run:
                    runs.setdefault((side, workers, jitter), []).append(run)
    means = {side: statistics.mean(run["mean"] for (of, _, jitter), group in runs.items() if of == side and not jitter for run in group)
             for side in sides if (side, 1, False) in runs or (side, 0, False) in runs}
    lines = [f"{datetime.date.today()}, {machine()}, load average {load:.1f} before; {count} photographs, {options.rounds} rounds of {options.epochs} "
             f"epochs; medians and quartiles. Ratios are medians of rounds. Mean of all normalised pixels: "
             f"{', '.join(f'{side} {mean:.3f}' for side, mean in means.items())}.", ""]
    for workers, jitter in cases:
        lines += table(runs, workers, jitter)
    text = "\n".join(lines).rstrip()
    print(text)
    if options.write_docs:
        write_docs("data_pipeline", text)


main()
