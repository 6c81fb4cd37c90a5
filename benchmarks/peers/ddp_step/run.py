"""A training step by DistributedDataParallel on 2 ranks: Muster over shm and over gloo, and Python over gloo, beside the floor.

    .venv/bin/python benchmarks/peers/ddp_step/run.py [--turns 11] [--models mlp cnn …] [--caps-mib 1 4 25 …] [--phases]
                                                      [--shm KEY=VALUE …] [--build build] [--write-docs]

The floor is Muster's same step without any communication, on both ranks at once, in the processes of the shm side; "bucket
views" is shm with gradient_as_bucket_view, as in `muster train`. Builds our side and starts one group of processes per backend,
which live through all models; the sides step in turn (A B C D E A …), the order turned by one each turn, two turns untimed.
Sides that wait their turn sleep. Before it is timed, every side trains from the same weights: with the same batch on both ranks,
where all losses must agree to 1e-4, the floor's too; and with a batch per rank, where those of the DDP sides must. Otherwise
the run is refused.

A second table compares caps of the bucket size over shm (none: `--caps-mib` without numbers). --phases adds where the time of a
step goes, --shm sets options of our shm side (those of ddp_step.cpp), --write-docs puts tables and plot into docs/.
"""

import argparse
import datetime
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
HERE = Path(__file__).resolve().parent
from bar_chart import bar_chart  # noqa: E402
from rank_group import RankGroup  # noqa: E402
from report import load_average, machine, torch_version, write_docs  # noqa: E402

RANKS = 2
TARGET = 1.25  # times the floor
MODELS = {  # title, steps per turn; sizes are those of ddp_step.cpp and peer.py
    "mlp": ("MLP 784-2048-2048-10, 64 per rank", 8),
    "cnn": ("CNN 28 x 28, 32 per rank", 8),
    "resnet18": ("ResNet-18 32 x 32, 32 per rank", 2),
    "lstm": ("LSTM 28 rows, 64 per rank", 16),
}
SIDES = {"floor": "no communication", "shm": "Muster, shm", "views": "shm, bucket views", "gloo": "Muster, gloo", "python": "Python, gloo"}
PHASES = ("forward", "backward", "update")
CHECK_STEPS = 5


def refuse_unless_equal(model, what, losses):
    names = list(losses)
    for name in names[1:]:
        pairs = list(zip(losses[names[0]], losses[name]))
        if len(pairs) != CHECK_STEPS or not all(abs(a - b) <= 1e-4 for a, b in pairs):
            sys.exit(f"ddp_step: {model}, {what}: losses of {names[0]} {losses[names[0]]}, of {name} {losses[name]}")


class Variant:
    """What is timed as one side: a name within a group of processes."""

    def __init__(self, name, group, options=()):
        self.name, self.group, self.options = name, group, list(options)

    def losses(self, model, *options):
        self.group("setup", self.name, model, *self.options, *options)
        return self.group("losses", self.name, CHECK_STEPS)["losses"]

    def step(self, count):
        return {key: 1e3 * seconds / count for key, seconds in self.group("step", self.name, count).items()}


def measure(variants, model, turns):
    """{name: [milliseconds by kind, of a step, a dictionary a turn]}"""
    refuse_unless_equal(model, "same batch", {variant.name: variant.losses(model, "same_batch=1") for variant in variants})
    own = {variant.name: variant.losses(model) for variant in variants}
    refuse_unless_equal(model, "a batch per rank", {name: losses for name, losses in own.items() if name != "floor"})
    times = {variant.name: [] for variant in variants}
    for turn in range(turns + 2):
        at = turn % len(variants)
        for variant in variants[at:] + variants[:at]:
            answer = variant.step(MODELS[model][1])
            if turn >= 2:
                times[variant.name].append(answer)
    for group in {id(variant.group): variant.group for variant in variants}.values():
        group("drop")
    return times


def column(times, name, kind="seconds"):
    return [answer[kind] for answer in times[name]]


def ratio(times, name, to):
    return statistics.median(a / b for a, b in zip(column(times, name), column(times, to)))


def show(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def main_row(model, times):
    cells = [MODELS[model][0]] + [show(column(times, name)) for name in SIDES]
    cells += [f"{ratio(times, name, 'floor'):.2f}" for name in SIDES if name != "floor"] + [f"{ratio(times, 'python', 'shm'):.2f}"]
    return "| " + " | ".join(cells) + " |"


MAIN_HEAD = ("| step | " + " | ".join(f"{name}, ms" for name in SIDES.values()) + " | "
             + " | ".join(f"{title} / floor" for name, title in SIDES.items() if name != "floor") + " | Python, times shm |\n|---|" + "---|" * 10)


def cpu_row(model, times):
    return f"| {MODELS[model][0]} | " + " | ".join(show(column(times, name, "cpu_seconds")) for name in SIDES) + " |"


CPU_HEAD = "| CPU time of both ranks | " + " | ".join(f"{name}, ms" for name in SIDES.values()) + " |\n|---|" + "---|" * 5


def phase_rows(model, times):
    for name, title in SIDES.items():
        yield f"| {MODELS[model][0]} | {title} | " + " | ".join(show(column(times, name, phase)) for phase in PHASES) + " |"


PHASE_HEAD = "| model | side | forward and loss, ms | backward, ms | optimizer, ms |\n|---|---|---|---|---|"


def cap_table(models, caps, shm, turns):
    lines = ["| bucket_bytes_cap, step / floor | " + " | ".join(f"{cap} MiB" for cap in caps) + " |", "|---|" + "---|" * len(caps)]
    for model in models:
        floor = Variant("floor", shm, ["alone=1"])
        variants = [Variant(f"{cap}", shm, [f"bucket_bytes_cap={cap << 20}"]) for cap in caps]
        times = measure([floor, *variants], model, turns)
        lines.append(f"| {MODELS[model][0]} | " + " | ".join(f"{ratio(times, variant.name, 'floor'):.2f}" for variant in variants) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def plot(results):
    groups = {model: [(ratio(times, name, "floor") if name != "floor" else 1.0, f"{statistics.median(column(times, name)):.1f} ms")
                      for name in SIDES] for model, times in results.items()}
    path = ROOT / "docs" / "images" / "ddp_step.svg"
    path.write_text(bar_chart(f"A training step on {RANKS} ranks, times the step without communication", list(SIDES.values()), groups, TARGET))
    described = "; ".join(f"{model}: " + ", ".join(f"{SIDES[name]} {groups[model][i][0]:.2f}" for i, name in enumerate(SIDES) if i) for model in groups)
    return f"![Bars: a training step, times the step without communication. {described}](images/ddp_step.svg)"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each side (default: 11)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--caps-mib", type=int, nargs="*", default=[1, 2, 4, 8, 25, 100], help="caps of the second table, MiB")
    parser.add_argument("--shm", nargs="*", default=[], metavar="KEY=VALUE", help="options of our shm side")
    parser.add_argument("--phases", action="store_true", help="print forward, backward and optimizer, too")
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--write-docs", action="store_true", help="put tables and plot into docs/")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    load = load_average("ddp_step")
    subprocess.run(["cmake", "--build", str(ROOT / arguments.build), "--target", "ddp_step"], check=True, stdout=sys.stderr)
    program = str(ROOT / arguments.build / "bin" / "ddp_step")
    groups = {backend: RankGroup(SIDES[backend], [program, backend], RANKS) for backend in ("shm", "gloo")}
    groups["python"] = RankGroup(SIDES["python"], [sys.executable, str(HERE / "peer.py")], RANKS)
    variants = [Variant("floor", groups["shm"], ["alone=1"]), Variant("shm", groups["shm"], arguments.shm),
                Variant("views", groups["shm"], [*arguments.shm, "gradient_as_bucket_view=1"]), Variant("gloo", groups["gloo"]),
                Variant("python", groups["python"])]
    results = {}
    for model in arguments.models:
        results[model] = measure(variants, model, arguments.turns)
        print(main_row(model, results[model]), file=sys.stderr, flush=True)
    words = " ".join(["benchmarks/peers/ddp_step/run.py", *sys.argv[1:]])
    parts = [f"{datetime.date.today()}, {machine()}, load average {load:.2f} at the start; PyTorch {torch_version()} on all sides, {RANKS} ranks "
             f"of one thread, float32, SGD with momentum; milliseconds per step, median (least–most) of {arguments.turns} turns:\n`{words}`",
             "\n".join([MAIN_HEAD, *(main_row(model, times) for model, times in results.items())]),
             "\n".join([CPU_HEAD, *(cpu_row(model, times) for model, times in results.items())])]
    if arguments.phases:
        parts.append("\n".join([PHASE_HEAD, *(line for model, times in results.items() for line in phase_rows(model, times))]))
    if arguments.caps_mib:
        parts.append(cap_table(arguments.models, arguments.caps_mib, groups["shm"], arguments.turns))
    for group in groups.values():
        group.close()
    print("\n\n".join(parts))
    if arguments.write_docs:
        write_docs("ddp_step", "\n\n".join([*parts[:1], plot(results), *parts[1:]]))


if __name__ == "__main__":
    main()
