"""The house: rooms and areas, and which of them each may include. check_arrows.py holds the tree to it."""


class Room:
    """`sees`: rooms. `areas`: folder -> areas of this room that it may include; "" is what lies in the room itself."""

    def __init__(self, what, sees, areas, torch=False):
        self.what, self.sees, self.areas, self.torch = what, sees, areas, torch


# From the ground up. Who is not named may not be included; a folder that is not here is refused until it is.
ROOMS = {
    "base": Room("errors, text, JSON, entries, options", [], {"": []}),
    "formats": Room("readers of untrusted bytes", ["base"], {"": [], "image": [""], "tar": ["", "image"]}),
    "text": Room("words, vocabularies, tokenizers", ["base", "formats"], {
        "unicode": [], "words": ["unicode"], "batch": [], "vocab": ["unicode", "batch"], "subword": ["unicode", "batch", "vocab"],
        "corpus": ["unicode", "words", "vocab", "subword"]}),
    "image": Room("8-bit images resized, cut and recoloured", ["base"], {
        "": [], "kernels": [], "resample": ["", "kernels"], "geometry": ["", "kernels"], "color": ["", "kernels", "geometry"]}),
    "diagnose": Room("what happened, and who began it", ["base"], {"record": [], "trace": ["record"], "catalogue": [], "errors": ["catalogue"],
        "log": ["catalogue"], "surroundings": [], "checks": ["surroundings"], "explain": ["catalogue", "log", "surroundings"],
        "devices": ["record", "surroundings"]}),
    "launch": Room("ranks as processes", ["base"], {
        "io": [], "process": ["io"], "job": ["io", "process"], "launchers": ["io", "process", "job"]}),
    "track": Room("what a run records", ["base"], {"": [], "page": [""], "picture": ["", "page"], "tensorboard": [""]}),
    "tune": Room("studies", ["base", "launch", "track"], {
        "space": [], "trial": ["space"], "objective": ["space", "trial"],
        "search": ["space", "trial", "objective"], "searchers": ["space", "trial", "objective", "search"],
        "schedule": ["space", "trial"], "schedulers": ["space", "trial", "schedule"],
        "core": ["space", "trial", "objective", "search", "schedule"],
        "storage": ["space", "trial", "objective", "core"], "files": ["space", "trial", "objective", "core"],
        "machine": ["space", "trial", "core"], "execute": ["space", "trial", "core", "machine"],
        "executors": ["space", "trial", "core", "machine", "execute"],
        "views": ["space", "trial", "objective", "core", "storage"],
        "plot": ["space", "trial", "objective", "schedule", "core", "storage", "views"],
        "plots": ["space", "trial", "objective", "core", "storage", "views", "plot"],
        "run": ["space", "trial", "objective", "core", "storage", "files", "machine", "execute", "views"]}),
    "pipeline": Room("who computes what when, stage by stage", ["base", "track"], {
        "action": [], "order": ["action"], "schedule": ["action"], "schedules": ["action", "schedule"],
        "simulate": ["action", "order"], "draw": ["action", "simulate"], "partition": ["action", "schedule", "simulate"]}),
    "program": Room("what programs with a command line are made of", ["base", "diagnose", "track"], {
        "screen": [], "config": [], "line": ["screen", "config"], "": []}),
    "dash": Room("web pages over studies and runs", ["base", "launch", "track", "tune"], {"": []}),
    "tensor": Room("what LibTorch needs from us", ["base", "formats"], {"": ["device"], "device": []}, torch=True),
    "distributed": Room("process groups", ["base", "diagnose", "tensor"], {
        "meet": [], "call": ["meet"], "thread": ["meet", "call"], "shm": ["meet", "call"], "two_level": ["meet", "call"], "nccl": ["meet"],
        "monitor": ["meet", "call"], "": ["meet", "call", "thread", "monitor"],
        "backends": ["meet", "call", "thread", "shm", "two_level", "nccl"]}, torch=True),
    "parallel": Room("one model over a group", ["base", "pipeline", "tensor", "distributed"], {
        "module": [], "threads": [], "hook": ["module"], "hooks": ["hook", "module"], "ddp": ["module", "hook"],
        "sharded": ["module", "hook", "ddp"], "replicas": ["module", "threads", "ddp"], "batch_norm": ["module"], "precision": ["module"],
        "activations": ["batch_norm"], "pipeline": ["module", "threads", "precision", "activations"],
        "pipeline_ranks": ["module", "pipeline"]}, torch=True),
    "optim": Room("optimizers, schedules, clipping", ["base", "tensor"], {"": [], "optimizers": [""], "schedules": [""]}, torch=True),
    "data": Room("datasets and loaders", ["base", "formats", "image", "text", "tensor"], {
        "": [], "samplers": [""], "loader": ["", "samplers"], "sets": [""], "stream": ["", "samplers"], "functional": [""],
        "transform": ["", "functional"], "transforms": ["", "functional", "transform"], "datasets": ["", "sets"]}, torch=True),
    "models": Room("layers, families, zoo", ["base", "tensor"], {
        "layers": [], "": ["layers"], "families": ["", "layers"], "zoo": ["", "layers", "families"]}, torch=True),
    "memory": Room("who holds the bytes, leaks, step guard", ["base", "diagnose", "tensor", "distributed"], {
        "allocator": [], "tracker": ["allocator"], "leak": ["allocator", "tracker"],
        "guard": ["allocator"], "batch": ["allocator", "guard"], "snapshot": ["allocator"],
        "report": ["allocator", "tracker", "guard"], "estimate": ["allocator"]}, torch=True),
    "train": Room("the training loop", ["base", "formats", "diagnose", "track", "pipeline", "program", "tune", "tensor", "distributed", "parallel",
                                        "optim", "data", "models", "memory"], {
        "metrics": [], "checkpoints": [], "task": ["metrics"], "plan": ["metrics", "task"],
        "replicas": ["metrics", "task", "plan"], "strategies": ["plan", "replicas"],
        "record": ["metrics", "task", "plan", "checkpoints"],
        "device": ["plan"], "progress": ["metrics", "task", "plan", "checkpoints", "record"],
        "loop": ["metrics", "task", "plan", "checkpoints", "replicas", "record", "device", "progress"],
        "program": ["metrics", "task", "plan", "checkpoints", "replicas", "record", "device", "progress", "loop"],
        "classifier": ["metrics", "task", "plan", "checkpoints", "replicas", "record", "loop"]}, torch=True),
    "testing": Room("what users and our tests fake", ["base", "tensor", "distributed", "memory"], {"": [], "accelerator": [], "cpu": ["accelerator"]}, torch=True),
}
# The program, in the same way: its folders, and which of them each may include. "" is what lies in cli/ itself.
CLI = {
    "screen": [], "line": ["screen"], "": ["screen"], "project": [], "dataset": [], "doctor": [], "watch": ["screen"], "gpu": ["screen"],
    "study": ["", "screen", "line", "watch"], "describe": ["", "screen", "line", "study"],
    "commands": ["", "screen", "line", "project", "dataset", "doctor", "gpu", "study", "describe"],
    "torch": ["", "screen", "line", "study", "describe"]}
# Folders beside muster/, and what of it they see. Doors and everything: users' programs go through doors (DOORS_ONLY).
OUTSIDE = {
    "cli": ["muster"],
    "examples": ["muster"],
    "benchmarks": ["muster", "tests/tune", "tests/memory", "tests/support"],  # the simulator of studies; programs that leak; the counting allocator
    "tests": ["muster", "cli", "examples"],
}
DOORS_ONLY = ["examples", "tests/consume"]  # as users write: no header but muster/<room>.h
TORCH_SIDE = ["cli/torch"]  # within cli: the part of muster-torch
# Of torch rooms, yet without LibTorch, for `muster train --help` and completions: they include the standard library and each other.
TORCH_FREE_HEADERS = ["muster/train/plan/ask_options.h", "muster/train/plan/option_infos.h", "muster/train/plan/options.h", "muster/train/plan/searched_numbers.h"]
