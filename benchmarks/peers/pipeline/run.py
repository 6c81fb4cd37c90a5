"""Pipelines: a step of Muster's, of threads and of processes, beside torch.distributed.pipelining over gloo and one core.

    .venv/bin/python benchmarks/peers/pipeline/run.py [--turns 5] [--build build] [--write-docs]

Builds our side. Eight Linear layers of 1024 with ReLU, two stages, a thread each; per setting, each turn starts each side once. In our
program a step on one core and a step of the pipeline take turns. The first two steps are not timed. A turn is refused if the last losses differ
by more than 1 % between one side's and the other's start (other data, same size). "of the bound" is (M+1)/M times what the busier rank
computed (both cores busy), divided by the step: 1 is a pipeline that loses nothing but its bubble. --write-docs puts the table
into docs/benchmarks.md.
"""

import argparse
import datetime
import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from report import ROOT, load_average, machine, torch_version, write_docs  # noqa: E402

SETTINGS = [("1f1b", 4, 256), ("1f1b", 16, 256), ("gpipe", 8, 1024), ("1f1b", 8, 1024), ("interleaved", 8, 1024), ("zb1p", 8, 1024)]
PEERS = {"gpipe", "1f1b", "interleaved"}
STEPS = 12


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def once(command, setting):
    done = subprocess.run([*command, *map(str, setting), str(STEPS)], capture_output=True, text=True, check=True,
                          env={**os.environ, "PEER_PORT": str(free_port())})
    return json.loads(done.stdout.splitlines()[-1])


def ms(values):
    return 1e3 * statistics.median(values)


def row(setting, ours, processes, theirs):
    schedule, micro_batches, batch = setting
    steps = [s for answer in ours for s in answer["pipeline"][2:]]
    one = [s for answer in ours for s in answer["one_core"][2:]]
    busy = [b for answer in ours for b in answer["busy"][2:]]
    bound = (micro_batches + 1) / micro_batches
    # Of interleaved stages the bubble is half as long; ZB1P's is a third.
    if schedule == "interleaved":
        bound = (micro_batches + 0.5) / micro_batches
    if schedule == "zb1p":
        bound = (micro_batches + 1 / 3) / micro_batches
    of_bound = statistics.median(bound * b / s for b, s in zip(busy, steps))
    speedup = statistics.median(o / s for o, s in zip(one, steps))
    python = ms([s for answer in theirs for s in answer["pipeline"][2:]]) if theirs else None
    apart = ms([s for answer in processes for s in answer["pipeline"][2:]])
    return (f"| `{schedule}` | {batch} | {micro_batches} | {ms(one):.0f} | {ms(steps):.0f} | {speedup:.2f} | {of_bound:.2f} | {apart:.0f} | "
            + (f"{python:.0f} | {python / ms(steps):.2f} | {python / apart:.2f} |" if python else "– | – | – |"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="starts of each side per setting (default: 5)")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    load = load_average("pipeline")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "pipeline_step", "muster"], check=True, stdout=sys.stderr)
    ours, theirs = [str(ROOT / arguments.build / "bin" / "pipeline_step")], [sys.executable, str(HERE / "peer.py")]
    apart = [str(ROOT / arguments.build / "bin" / "muster"), "run", "--nproc-per-node", "2", "--no-prefix", "--", *ours]
    rows = []
    for setting in SETTINGS:
        found = ([], [], [])
        for _ in range(arguments.turns):
            found[0].append(once(ours, setting))
            found[1].append(once(apart, setting))
            if setting[0] in PEERS:
                found[2].append(once(theirs, setting))
        for other in found[1:]:
            if other and abs(found[0][-1]["loss"] / other[-1]["loss"] - 1) > 0.01:
                sys.exit(f"pipeline: the loss is {found[0][-1]['loss']} here and {other[-1]['loss']} there: the sides differ")
        rows.append(row(setting, *found))
        print(rows[-1], file=sys.stderr)
    words = " ".join(["benchmarks/peers/pipeline/run.py", *sys.argv[1:]])
    text = "\n".join([
        f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on both sides, eight Linear "
        f"layers of 1024 with ReLU, float32, two stages with a thread each, or with a process each (over shm; Python's over gloo). Medians of "
        f"{arguments.turns} starts:", f"`{words}`", "",
        "| schedule | batch | micro-batches | one core, ms | threads, ms | times one core | of the bound | processes, ms | Python, ms | Python / threads "
        "| Python / processes |", "|---|---|---|---|---|---|---|---|---|---|---|", *rows])
    print(text)
    if arguments.write_docs:
        write_docs("pipeline", text)


if __name__ == "__main__":
    main()
