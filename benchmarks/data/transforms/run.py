"""Image transforms: Muster beside torchvision, of tensors and of PIL images. The picture is scikit-learn's china.jpg, 640 x 427.

    .venv/bin/python benchmarks/data/transforms/run.py [--rounds 7] [--build build] [--write-docs]

Processor time on one thread, all sides in turn, each in a process of its own, on one core. A run is refused if the bytes of a tensor differ,
where nothing is drawn.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from peer import TRANSFORMS  # noqa: E402
from report import load_average, machine, write_docs  # noqa: E402

DRAWN = "random_resized_crop:size=224"
SIDES = {"muster": "Muster", "tensor": "torchvision, tensor", "pillow": "torchvision, PIL"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each side (default: 7)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def write_picture(folder):
    import sklearn
    picture = np.asarray(Image.open(Path(sklearn.__file__).parent / "datasets" / "images" / "china.jpg").convert("RGB"))
    file = folder / "china.bin"
    file.write_bytes(np.ascontiguousarray(picture.transpose(2, 0, 1)).tobytes())
    return [str(file), *map(str, picture.shape[:2])]


def run_once(side, build, picture):
    command = [build / "bin" / "transform_speed"] if side == "muster" else [sys.executable, HERE / "peer.py", side]
    done = subprocess.run([*command, *picture, *TRANSFORMS], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"transforms: {side} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def check(runs):
    for chain in TRANSFORMS:
        sums = {run[chain]["sum"] for side in ("muster", "tensor") for run in runs[side]}
        if chain != DRAWN and len(sums) != 1:
            sys.exit(f"transforms: the sides disagree on {chain}: {sums}")


def shown(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle * 1e6:,.0f} ({low * 1e6:,.0f}–{high * 1e6:,.0f})"


def table(runs):
    yield f"| transform | {', µs | '.join(SIDES.values())}, µs | tensor / Muster | PIL / Muster |"
    yield "|---" * 6 + "|"
    for chain in TRANSFORMS:
        times = {side: [run[chain]["seconds"] for run in runs[side]] for side in SIDES}
        middle = {side: statistics.median(some) for side, some in times.items()}
        ratios = [f"{middle[side] / middle['muster']:.1f}" for side in ("tensor", "pillow")]
        yield f"| `{chain}` | {' | '.join(shown(times[side]) for side in SIDES)} | {' | '.join(ratios)} |"


def main():
    arguments = parse_arguments()
    load = load_average("transforms")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    runs = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        picture = write_picture(Path(folder))
        for _ in range(arguments.rounds):
            for side in SIDES:
                runs[side].append(run_once(side, ROOT / arguments.build, picture))
    check(runs)
    heading = f"{datetime.date.today()}, {machine()}, load average {load:.1f} at the start; {arguments.rounds} rounds, medians and quartiles."
    text = "\n".join([heading, "", *table(runs)])
    print(text)
    if arguments.write_docs:
        write_docs("transforms", text)


if __name__ == "__main__":
    main()
