"""Writes golden.json beside this file: what Python's DistributedDataParallel (gloo, 1, 2 and 4 ranks) computes.

README.md beside this file says, statement by statement, how models and data are made; tests/parallel follows it in C++.
Run it with the peers' Python: .venv/bin/python tests/golden/ddp/make_golden.py
Two kinds of kernels, two files: ../kernels.py.
"""

import json
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from kernels import for_both_kernels, golden_path  # noqa: E402

IN, CLASSES, BATCH = 8, 4, 16
DTYPES = {"float64": (torch.float64, 1e-12), "float32": (torch.float32, 1e-6)}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(IN, 12)
        self.fc2 = nn.Linear(12, 6)
        self.fc3 = nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Again(nn.Module):
    """A second layer on another layer's weight, with a bias of its own."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(weight.shape[0]))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class Knotted(nn.Module):
    """BatchNorm with fixed statistics, one weight used by two layers, one layer never used."""

    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(IN, 7)
        self.norm = nn.BatchNorm1d(7)
        self.tied = nn.Linear(7, 7)
        self.again = Again(self.tied.weight)
        self.unused = nn.Linear(7, 3)
        self.head = nn.Linear(7, CLASSES)
        with torch.no_grad():
            for i in range(7):
                self.norm.running_mean[i] = 0.125 * i - 0.375
                self.norm.running_var[i] = 0.5 + 0.125 * i
        self.norm.eval()

    def forward(self, x):
        h = F.relu(self.norm(self.inlet(x)))
        h = F.relu(self.tied(h))
        h = F.relu(self.again(h))
        return self.head(h)


SGD = {"kind": "sgd", "lr": 0.1, "momentum": 0.9}
ADAMW = {"kind": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-4, "weight_decay": 0.01}


def case(name, model, optimizer, steps, micro_steps=1, **ddp):
    options = {"find_unused_parameters": False, "gradient_as_bucket_view": False, "bucket_cap_mb": 25.0}
    return {"name": name, "model": model, "optimizer": optimizer, "steps": steps, "micro_steps": micro_steps,
            "ddp": options | ddp}


CASES = [
    case("mlp_sgd", "mlp", SGD, steps=5),
    case("mlp_sgd_small_buckets", "mlp", SGD, steps=3, bucket_cap_mb=0.0005),
    case("knotted_unused", "knotted", SGD, steps=5, find_unused_parameters=True),
    case("mlp_no_sync", "mlp", SGD, steps=3, micro_steps=2),
    case("mlp_bucket_view", "mlp", SGD, steps=3, gradient_as_bucket_view=True),
    case("mlp_adamw", "mlp", ADAMW, steps=3),
]


def make_model(name, dtype):
    torch.manual_seed(0)
    return {"mlp": Mlp, "knotted": Knotted}[name]().to(dtype)


def make_batch(step, dtype):
    generator = torch.Generator().manual_seed(100 + step)
    x = torch.rand(BATCH, IN, generator=generator)
    x = x * 2
    x = x - 1
    y = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    return x.to(dtype), y


def make_optimizer(model, options):
    if options["kind"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=options["lr"], momentum=options["momentum"])
    return torch.optim.AdamW(model.parameters(), lr=options["lr"], betas=(options["beta1"], options["beta2"]),
                             eps=options["eps"], weight_decay=options["weight_decay"])


def numbers(tensor):
    return None if tensor is None else tensor.detach().double().flatten().tolist()


def train(spec, dtype, rank, world):
    """The case on this rank. The caller's world 1 is a plain module: no DDP around it."""
    model = make_model(spec["model"], dtype)
    runner = DistributedDataParallel(model, **spec["ddp"]) if world > 1 else model
    optimizer = make_optimizer(model, spec["optimizer"])
    losses, first_gradients = [], None
    for step in range(spec["steps"]):
        x, y = make_batch(step, dtype)
        share = BATCH // world
        micro = share // spec["micro_steps"]
        optimizer.zero_grad()
        loss_of_step = 0.0
        for m in range(spec["micro_steps"]):
            begin = rank * share + m * micro
            last = m == spec["micro_steps"] - 1
            with nullcontext() if last or world == 1 else runner.no_sync():
                logits = runner(x[begin:begin + micro])
                loss = F.cross_entropy(logits, y[begin:begin + micro]) / spec["micro_steps"]
                loss.backward()
            loss_of_step += loss.item()
        losses.append(loss_of_step)
        if step == 0:
            first_gradients = {name: numbers(p.grad) for name, p in model.named_parameters()}
        optimizer.step()
    final = {name: numbers(p) for name, p in model.named_parameters()}
    return losses, first_gradients, final


def run_rank(rank, world, folder):
    torch.set_num_threads(1)
    if world > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    out = {}
    for spec in CASES:
        for dtype, (kind, _) in DTYPES.items():
            out[spec["name"] + " " + dtype] = train(spec, kind, rank, world)
    Path(folder, f"rank{rank}.json").write_text(json.dumps(out))
    if world > 1:
        leave(folder, world)


def leave(folder, world):
    """Ends this rank when all have written their file. Not by destroy_process_group and Python's own end: there PyTorch
    2.15 dies of SIGABRT now and then ("terminate called without an active exception"), and after powerSGD_hook often."""
    while not all(Path(folder, f"rank{rank}.json").exists() for rank in range(world)):
        time.sleep(0.01)
    os._exit(0)


def run_world(world):
    with tempfile.TemporaryDirectory() as folder:
        if world == 1:
            run_rank(0, 1, folder)
        else:
            mp.spawn(run_rank, args=(world, folder), nprocs=world)
        return [json.loads(Path(folder, f"rank{rank}.json").read_text()) for rank in range(world)]


def pretty(value, indent=""):
    """JSON with a line for each entry; a list of numbers, or what holds only plain values, stays on one line."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(v, (dict, list)) for v in inner):
        return json.dumps(value)
    deeper = indent + " "
    if isinstance(value, dict):
        lines = [f"{deeper}{json.dumps(k)}: {pretty(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + pretty(v, deeper) for v in value) + f"\n{indent}]"


def main():
    worlds = {world: run_world(world) for world in (1, 2, 4)}
    cases = []
    for spec in CASES:
        runs = []
        for dtype, (_, tolerance) in DTYPES.items():
            for world, ranks in worlds.items():
                of_rank = [rank[spec["name"] + " " + dtype] for rank in ranks]
                for losses, gradients, final in of_rank:
                    assert gradients == of_rank[0][1] and final == of_rank[0][2], "ranks must agree bit for bit"
                runs.append({"dtype": dtype, "world": world, "tolerance": tolerance,
                             "loss_by_rank": [losses for losses, _, _ in of_rank],
                             "gradients_after_step_1": of_rank[0][1], "final_parameters": of_rank[0][2]})
        initial = {name: numbers(p) for name, p in make_model(spec["model"], torch.float32).named_parameters()}
        cases.append(spec | {"initial_parameters": initial, "runs": runs})
    golden = {"torch": torch.__version__.split("+")[0], "batch": BATCH, "features": IN, "classes": CLASSES, "cases": cases}
    golden_path(__file__).write_text(pretty(golden) + "\n")


if __name__ == "__main__":
    for_both_kernels(main, __file__)
