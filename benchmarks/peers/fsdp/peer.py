"""The Python side of benchmarks/peers/fsdp: fully_shard (FSDP2) or DistributedDataParallel over gloo. Takes the commands of fsdp_step.cpp.

AdamW is the fused one, the fastest of PyTorch's on a CPU.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from process_status import status_mib
from rank_orders import next_order


class Side:
    def __init__(self, strategy, count, width, batch, tokens):
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
                                         for _ in range(count)))
        torch.manual_seed(100 + dist.get_rank())
        self.input = torch.randn(batch, tokens, width)
        if strategy == "ddp":
            self.net = DistributedDataParallel(self.net, gradient_as_bucket_view=True)
        else:
            mesh = init_device_mesh("cpu", (dist.get_world_size(),))
            for layer in self.net:
                fully_shard(layer, mesh=mesh)
            fully_shard(self.net, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3, fused=True)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.net(self.input).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def most_of_ranks(value):
    most = torch.tensor([value], dtype=torch.double)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return most.item()


def steps(side, count):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        loss = side.step()
    seconds = most_of_ranks(time.perf_counter() - start)
    dist.all_reduce(loss)
    return {"seconds": seconds, "loss": loss.item() / dist.get_world_size()}


def main():
    dist.init_process_group("gloo")
    side, before = None, status_mib("VmRSS")
    while order := next_order():
        answer = {}
        if order[0] == "setup":
            side = Side(sys.argv[1], *map(int, order[1:]))
        elif order[0] == "step":
            answer = steps(side, int(order[1]))
        else:
            answer = {"peak_mib": most_of_ranks(status_mib("VmHWM") - before)}
        if dist.get_rank() == 0:
            print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
