"""The Python side of benchmarks/peers/first_step: what first_step.cpp does, by torch.distributed and DDP.

    FIRST_STEP_OUT=/tmp/out torchrun --nproc-per-node 2 benchmarks/peers/first_step/peer.py memory|fashion-mnist [FOLDER]

Each rank notes CLOCK_MONOTONIC at the end of the first optimizer step and writes it, with the times of the phases before
it and the loss, to FIRST_STEP_OUT/rank<R>.json.
"""

import time

started = time.monotonic()

import gzip
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

imported = time.monotonic()

BATCH_PER_RANK = 64


def samples_in_memory():
    generator = torch.Generator().manual_seed(7)
    images = torch.rand(256, 784, generator=generator)
    labels = torch.randint(0, 10, (256,), generator=generator)
    return TensorDataset(images, labels)


class FashionMnist(Dataset):
    """Bytes stay bytes in memory; a sample becomes normalised float32 when it is asked for."""

    def __init__(self, folder):
        with gzip.open(f"{folder}/train-images-idx3-ubyte.gz") as file:
            self.images = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=16).view(-1, 784)
        with gzip.open(f"{folder}/train-labels-idx1-ubyte.gz") as file:
            self.labels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=8).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return (self.images[i].float() / 255 - 0.2860) / 0.3530, self.labels[i]


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 2048)
        self.fc2 = nn.Linear(2048, 2048)
        self.fc3 = nn.Linear(2048, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def main():
    dist.init_process_group("gloo")
    grouped = time.monotonic()
    dataset = samples_in_memory() if sys.argv[1] == "memory" else FashionMnist(sys.argv[2])
    sampler = DistributedSampler(dataset, shuffle=True, seed=0)
    loader = DataLoader(dataset, batch_size=BATCH_PER_RANK, sampler=sampler)
    loaded = time.monotonic()
    torch.manual_seed(0)
    mlp = Mlp()
    drawn = time.monotonic()
    model = DistributedDataParallel(mlp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = time.monotonic()
    x, y = next(iter(loader))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    forward = time.monotonic()
    loss.backward()
    optimizer.step()
    stepped = time.monotonic()
    with open(f"{os.environ['FIRST_STEP_OUT']}/rank{dist.get_rank()}.json", "w") as file:
        json.dump({"started": started, "imported": imported, "grouped": grouped, "loaded": loaded, "drawn": drawn,
                   "wrapped": wrapped, "forward": forward, "stepped": stepped, "loss": loss.item()}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
