"""Python's side of ddp_twin.cpp: torchrun --nproc-per-node 2 ddp_twin.py SPECS.json OUT_FOLDER."""

import json
import os
import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self, spec):
        super().__init__()
        widths = spec["widths"]
        self.depth = len(widths) - 1
        for i in range(self.depth):
            self.add_module(f"fc{i}", nn.Linear(widths[i], widths[i + 1]))
            if spec["batch_norm"] and i + 1 < self.depth:
                self.add_module(f"bn{i}", nn.BatchNorm1d(widths[i + 1]))
        if spec["spare_layer"]:
            self.spare = nn.Linear(widths[0], 2)

    def forward(self, x):
        for i in range(self.depth - 1):
            x = getattr(self, f"fc{i}")(x)
            if hasattr(self, f"bn{i}"):
                x = getattr(self, f"bn{i}")(x)
            x = F.relu(x)
        return getattr(self, f"fc{self.depth - 1}")(x)


def make_optimizer(spec, parameters):
    if spec["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, lr=spec["lr"], momentum=0.9)
    return torch.optim.AdamW(parameters, lr=spec["lr"], eps=1e-4)


def numbers(named):
    return {name: tensor.detach().double().flatten().tolist() for name, tensor in named}


def train(spec):
    dtype = getattr(torch, spec["dtype"])
    widths, rows, micro_steps, seed = spec["widths"], spec["rows_per_rank"], spec["micro_steps"], spec["seed"]
    torch.manual_seed(seed)
    net = Net(spec).to(dtype)
    ddp = DistributedDataParallel(net, bucket_cap_mb=spec["bucket_bytes"] / 2**20,
                                  find_unused_parameters=spec["find_unused_parameters"],
                                  gradient_as_bucket_view=spec["gradient_as_bucket_view"])
    optimizer = make_optimizer(spec, net.parameters())
    losses = []
    for step in range(spec["steps"]):
        optimizer.zero_grad()
        loss_of_step = 0.0
        for micro in range(micro_steps):
            generator = torch.Generator().manual_seed(((seed * 100 + step) * 100 + micro) * 100 + dist.get_rank())
            x = torch.rand(rows, widths[0], generator=generator).mul(2).sub(1).to(dtype)
            y = torch.randint(0, widths[-1], (rows,), generator=generator)
            with ddp.no_sync() if micro + 1 < micro_steps else nullcontext():
                loss = F.cross_entropy(ddp(x), y) / micro_steps
                loss.backward()
                loss_of_step += loss.item()
        optimizer.step()
        losses.append(loss_of_step)
    return {"loss": losses, "parameters": numbers(net.named_parameters()), "buffers": numbers(net.named_buffers())}


def main():
    dist.init_process_group("gloo")
    with open(sys.argv[1]) as file:
        results = [train(spec) for spec in json.load(file)]
    with open(f"{sys.argv[2]}/rank{dist.get_rank()}.json", "w") as file:
        json.dump(results, file)
    while not all(os.path.exists(f"{sys.argv[2]}/rank{rank}.json") for rank in range(dist.get_world_size())):
        time.sleep(0.01)
    os._exit(0)  # as python_rank.py


if __name__ == "__main__":
    main()
