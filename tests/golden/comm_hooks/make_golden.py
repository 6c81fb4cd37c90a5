"""Writes golden.json beside this file: what Python's DistributedDataParallel computes with communication hooks (gloo, 2
ranks, processes). Models and data are those of ../ddp/README.md; a step is one batch of 16 rows, 8 per rank, and SGD.

All gradients are in one bucket: with several, powerSGD_hook starts sums in callbacks, whose order differs between ranks,
and on gloo it ends in a mismatch or hangs. `bf16` goes through a function of another name, because DDP refuses the hook by
its name where there is no NCCL.
Two kinds of kernels, two files: ../kernels.py.
"""

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from kernels import for_both_kernels, golden_path  # noqa: E402

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("ddp_golden", HERE.parent / "ddp" / "make_golden.py")
ddp_golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ddp_golden)

WORLD, STEPS = 2, 6


def bf16(group, bucket):
    return default_hooks.bf16_compress_hook(group, bucket)


def powersgd_case(name, tolerance, **options):
    options = {"matrix_approximation_rank": 1, "start_powerSGD_iter": 2, "min_compression_rate": 1,
               "use_error_feedback": True, "warm_start": True, "orthogonalization_epsilon": 0, "random_seed": 0} | options
    return {"name": name, "dtype": "float64", "tolerance": tolerance, "powersgd": options}


CASES = [
    {"name": "fp16", "dtype": "float32", "tolerance": 1e-6},
    {"name": "bf16", "dtype": "float32", "tolerance": 1e-6},
    powersgd_case("powersgd_rank_1", 1e-11),
    powersgd_case("powersgd_rank_2_seed_7", 1e-11, matrix_approximation_rank=2, random_seed=7),
    powersgd_case("powersgd_rank_4_qr", 1e-11, matrix_approximation_rank=4),
    powersgd_case("powersgd_cold_start", 1e-11, warm_start=False),
    powersgd_case("powersgd_without_feedback", 1e-11, use_error_feedback=False),
    powersgd_case("powersgd_epsilon", 1e-11, orthogonalization_epsilon=1e-3),
    powersgd_case("powersgd_min_rate_3", 1e-11, min_compression_rate=3),
]


def register(ddp, case):
    if case["name"] == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif case["name"] == "bf16":
        ddp.register_comm_hook(None, bf16)
    else:
        ddp.register_comm_hook(powersgd.PowerSGDState(None, **case["powersgd"]), powersgd.powerSGD_hook)


def train(case, rank):
    dtype = ddp_golden.DTYPES[case["dtype"]][0]
    model = ddp_golden.make_model("mlp", dtype)
    ddp = DistributedDataParallel(model)
    register(ddp, case)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    gradients = []
    share = ddp_golden.BATCH // WORLD
    for step in range(STEPS):
        x, y = ddp_golden.make_batch(step, dtype)
        optimizer.zero_grad()
        F.cross_entropy(ddp(x[rank * share:][:share]), y[rank * share:][:share]).backward()
        gradients.append({name: ddp_golden.numbers(p.grad) for name, p in model.named_parameters()})
        optimizer.step()
    final = {name: ddp_golden.numbers(p) for name, p in model.named_parameters()}
    return {"last_gradients": gradients[-1], "final_parameters": final}


def run_rank(rank, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    Path(folder, f"rank{rank}.json").write_text(json.dumps([train(case, rank) for case in CASES]))
    ddp_golden.leave(folder, WORLD)


def main():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, args=(folder,), nprocs=WORLD)
        ranks = [json.loads(Path(folder, f"rank{rank}.json").read_text()) for rank in range(WORLD)]
    assert ranks[0] == ranks[1], "ranks must agree bit for bit"
    cases = [case | result for case, result in zip(CASES, ranks[0])]
    golden = {"torch": torch.__version__.split("+")[0], "world": WORLD, "steps": STEPS, "cases": cases}
    golden_path(__file__).write_text(ddp_golden.pretty(golden) + "\n")


if __name__ == "__main__":
    for_both_kernels(main, __file__)
