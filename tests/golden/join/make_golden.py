"""Writes golden.json beside this file: what Python's DistributedDataParallel.join computes (gloo, 3 ranks, processes)
where the ranks have 2, 4 and 3 batches. Models and data are those of ../ddp/README.md; rank r takes rows 5 r .. 5 r + 4 of
the batch of each of its steps.
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
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from kernels import for_both_kernels, golden_path  # noqa: E402

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("ddp_golden", HERE.parent / "ddp" / "make_golden.py")
ddp_golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ddp_golden)

WORLD, BATCHES, ROWS = 3, [2, 4, 3], 5
CASES = [{"model": model, "divide_by_initial_world_size": divide, "find_unused_parameters": model == "knotted"}
         for model in ("mlp", "knotted") for divide in (True, False)]


def train(case, rank):
    model = ddp_golden.make_model(case["model"], torch.float64)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.0005, find_unused_parameters=case["find_unused_parameters"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with ddp.join(divide_by_initial_world_size=case["divide_by_initial_world_size"]):
        for step in range(BATCHES[rank]):
            x, y = ddp_golden.make_batch(step, torch.float64)
            optimizer.zero_grad()
            F.cross_entropy(ddp(x[rank * ROWS:][:ROWS]), y[rank * ROWS:][:ROWS]).backward()
            optimizer.step()
    return {name: ddp_golden.numbers(p) for name, p in model.named_parameters()}


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
    assert ranks[0] == ranks[1] == ranks[2], "ranks must end with the model of the last"
    cases = [case | {"final_parameters": final} for case, final in zip(CASES, ranks[0])]
    golden = {"torch": torch.__version__.split("+")[0], "batches": BATCHES, "rows": ROWS, "tolerance": 1e-12, "cases": cases}
    golden_path(__file__).write_text(ddp_golden.pretty(golden) + "\n")


if __name__ == "__main__":
    for_both_kernels(main, __file__)
