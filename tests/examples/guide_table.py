"""What guide_commands.py does otherwise than to run a command of a guide and to look for what stands below it; and why.

A rule is for the commands of a guide that begin so (that are so, where it ends in "$"), or for the one of them that comes `number`-th
among equal ones. The first rule that fits counts.
"""
import dataclasses
import typing

import guide_worlds as worlds


@dataclasses.dataclass
class Rule:
    guide: str
    begins: str
    how: str = "run"  # "plan": with `flag`; "elsewhere": `why` is the test that runs it; "except": `why` nobody does
    why: str = ""
    flag: str = "--explain"
    number: int = 0
    before: typing.Callable = None
    after: typing.Callable = None
    code: typing.Optional[int] = None  # how it ends where neither 0 nor an error is shown; 1 is any error
    shown: str = ""  # of what stands below it, the lines that are looked for
    exact: bool = False  # with its numbers
    interrupt_when: typing.Optional[str] = None  # "^C" comes when this file is there
    share: int = 0  # of Fashion-MNIST, in place of the guide's
    tries: int = 1  # so often it is run, until it prints what is shown
    used: bool = False


@dataclasses.dataclass
class StandIn:
    guide: str
    pattern: str
    instead: str
    why: str
    used: bool = False


LONG = "minutes on two cores"
BUILDS = "builds or installs, which CI does before all tests"

MACHINES = "tests/process/train/several_machines_guide_test.cpp"
WATCH = "tests/process/tune/watch_test.cpp"
CONSUME = "tests/consume/consume.py"
NEW = "tests/consume/new_projects.py"

# Blocks that are files of the reader: their first line, and their name.
FILES = {
    "docs/tune.md": [("#!/bin/bash", "train.sh"), ('name = "fashion"', "study.toml"), ("[searcher]", "searcher.toml"),
                     ('objectives = ["max accuracy", "min step_s"]   # in place of metric and mode', "objectives.toml")],
    "docs/train.md": [('model = "resnet18"', "run.toml")],
}

# Pages whose scripts are run by another test.
SCRIPTS = {"docs/trial-protocol.md": "tests/process/tune/trial_protocol_doc_test.cpp"}

# One of how many samples of Fashion-MNIST there are. A tenth makes a tenth of the steps.
SHARE = 200
SHARES = {"docs/checkpoints.md": 10, "docs/train.md": 20}

STAND_INS = [
    StandIn("*", r"--device cuda\b", "--device fake", "a machine without a GPU"),
    StandIn("docs/checkpoints.md", r"(step-|--checkpoint-every )(\d+)0\b", r"\g<1>\2", "a tenth of the data has a tenth of the steps"),
    StandIn("docs/train.md", r"\bstep-860\b", "step-44", "two epochs of a twentieth of the data"),
    *[StandIn(f"docs/add-a-{kind}.md", r"\bninja -C build\b", "ninja -n -C build", "the targets are there, and built by CI") for kind in
      ("backend", "dataset", "model", "pipeline-schedule", "scheduler", "searcher", "transform")],
]

# Of the page's machine, which has two cores; and the fake driver of its devices.
ENVIRONMENT = {
    "docs/checkpoints.md": {"OMP_NUM_THREADS": "2"},
    "docs/gpu.md": {"MUSTER_NVML_LIBRARY": "{build}/lib/libmuster_fake_devices.so", "FAKE_NVML_SCENARIO": "{folder}/scenario.json",
                    "MUSTER_STATUS_DIR": "{folder}/home/status"},
}

PREPARE = {
    "README.md": lambda world: (worlds.program("my_program", "bin/examples/zero")(world), worlds.trial(world),
                                world.must(f"mkdir examples && cp -r {world.root}/examples/tune_fashion examples")),
    "docs/data.md": worlds.data,
    "docs/devices.md": worlds.evaluated_run,
    "docs/transforms.md": worlds.photos,
    "docs/train.md": worlds.resnet_weights,
    "docs/when-a-rank-fails.md": worlds.log_of_a_run,
}

LONGEST_FIRST = ["docs/train.md", "docs/tune.md", "docs/checkpoints.md", "docs/choose-a-strategy.md", "docs/devices.md"]

RULES = [
    Rule("README.md", "make ", "except", BUILDS),
    Rule("README.md", "muster tune examples/tune_fashion/study.toml", "plan", LONG, flag="--dry-run 3"),

    Rule("docs/activation-checkpointing.md", "muster train", "plan", LONG),

    *[Rule(f"docs/add-a-{kind}.md", "make format", "except", "changes the tree; tree.format looks at it") for kind in
      ("backend", "dataset", "model", "pipeline-schedule", "scheduler", "searcher", "transform")],

    *[Rule("docs/benchmarks.md", begins, "except", "a benchmark: " + LONG) for begins in
      ("zcat benchmarks/tune/", "replay=", "$replay", "benchmarks/tune/schedulers/replay_table.py")],

    Rule("docs/checkpoints.md", "muster train --model mlp:hidden=128", interrupt_when="runs/a/latest", code=130),
    Rule("docs/checkpoints.md", "cmp ", before=worlds.unbroken_run),
    Rule("docs/checkpoints.md", "muster train --resume runs/a$", number=2, before=worlds.hold_run, after=worlds.let_go),
    Rule("docs/checkpoints.md", "muster train --resume runs/b$", before=worlds.alter_checkpoint),

    Rule("docs/choose-a-strategy.md", "muster run --nnodes 2", "elsewhere", MACHINES),
    Rule("docs/choose-a-strategy.md", "muster ", "plan", LONG),

    Rule("docs/data.md", "muster data info folder:photos", shown=r"^(all:|\| (class|china|flower)|bad |  damaged )"),
    Rule("docs/data.md", "muster train --model resnet18", "plan", LONG),

    Rule("docs/first-training-program.md", "build/bin/", "elsewhere", "tests/examples/run_example.py"),

    Rule("docs/fsdp.md", "muster train --model resnet50", "plan", LONG),

    Rule("docs/gpu.md", "muster gpu$", number=1, before=worlds.driver(worlds.PAGE_DEVICES),
         shown=r"^(NVIDIA|[0-9.#]+ +(device |A100|MIG)|device 2)"),
    Rule("docs/gpu.md", "muster gpu$", number=2, before=worlds.driver([], init=18), code=1),
    Rule("docs/gpu.md", "muster gpu --json", before=worlds.driver(worlds.FREE_DEVICES)),

    Rule("docs/install.md", "make build", "except", BUILDS),
    Rule("docs/install.md", "cmake --install", "elsewhere", CONSUME),
    Rule("docs/install.md", "~/muster/bin/muster", "elsewhere", CONSUME),
    Rule("docs/install.md", "sudo apt", "except", "needs root and a network"),

    Rule("docs/own-task.md", "cmake ", "elsewhere", NEW),
    Rule("docs/own-task.md", "muster run --nproc-per-node 2 -- build/my-rows", "elsewhere", NEW),

    Rule("docs/pipelines.md", "muster run --nproc-per-node 2 -- muster train", "plan", LONG),
    Rule("docs/pipelines.md", "muster run --nproc-per-node 4 -- muster train", "plan", LONG),
    Rule("docs/pipelines.md", "muster train --model resnet50", "plan", LONG),

    Rule("docs/train.md", "muster train --model lenet --epochs 2$", share=SHARE),
    Rule("docs/train.md", "muster run --nproc-per-node 2 -- muster train --model lenet", "plan", LONG),
    Rule("docs/train.md", "muster train --epochs 10 --train-transform", share=SHARE),
    Rule("docs/train.md", "muster train --train-transform", share=SHARE),
    Rule("docs/train.md", "muster train --model resnet18 --weights resnet18.safetensors --explain"),
    Rule("docs/train.md", "muster train --model resnet18 --weights runs/head", "plan", LONG, before=worlds.head_weights),
    Rule("docs/train.md", "muster train --model resnet18 --weights", "plan", LONG),
    Rule("docs/train.md", "muster train --model resnet18 --optimizer", shown="^(model|data|images|optimizer|batch|steps|test|seed) "),
    Rule("docs/train.md", "head -4 predictions.csv", shown="^index"),
    Rule("docs/train.md", "muster train --model mlp:hidden=128 --lr-schedule plateau", shown="^(epoch 8|muster: finished|test )"),
    Rule("docs/train.md", "tensorboard ", "except", "of Python's packages"),
    Rule("docs/train.md", "muster run --nproc-per-node 2 -- muster train --output runs/a", share=SHARE),
    Rule("docs/train.md", "muster run --nproc-per-node 2 -- muster train --strategy zero2", share=SHARE),
    Rule("docs/train.md", "muster run --nnodes 2", "elsewhere", MACHINES),

    Rule("docs/tune.md", "muster tune study.toml --dry-run 3", exact=True),
    Rule("docs/tune.md", "muster tune study.toml$", shown=r"^(20 trials:|best )"),
    Rule("docs/tune.md", "muster tune study.toml --explain", exact=True, before=worlds.auto_searcher),
    Rule("docs/tune.md", "muster study restart", before=worlds.failed_trials, after=worlds.page_study),
    Rule("docs/tune.md", "muster study show fashion.db", shown="^(trial |    0 )"),
    Rule("docs/tune.md", "muster study importance", shown="^(muster: |parameter )"),
    Rule("docs/tune.md", "muster study watch", "elsewhere", WATCH),
    Rule("docs/tune.md", "muster study pause", before=worlds.running_study),
    Rule("docs/tune.md", "muster study continue", before=worlds.await_trial("PAUSED")),
    Rule("docs/tune.md", "muster study stop", before=worlds.await_trial("RUNNING")),
    Rule("docs/tune.md", "muster study add", after=worlds.end_running_study),
    Rule("docs/tune.md", "muster study ask", exact=True),
    Rule("docs/tune.md", "muster study best two.db", before=worlds.two_objectives, shown="^(muster: two|trial |    0 )"),

    # A rank whose heartbeat comes late, on a busy machine, is not among those that it names.
    Rule("docs/when-a-rank-fails.md", "MUSTER_FAULTS='skip", shown="^.1. ", tries=3),
    Rule("docs/when-a-rank-fails.md", "MUSTER_FAULTS='kill", code=1),
]
