"""The Python side of benchmarks/peers/train: what `muster train` does, as a careful PyTorch user writes it.

    peer.py --data-dir DIR --model resnet18 --batch-size 32 --epochs 3 --out DIR        (alone, or under torchrun)

DIR holds Fashion-MNIST's gz files. The images stay bytes in memory and a batch is made at once by indexing: faster than
a DataLoader, which collates sample by sample. Rank r writes OUT/rank<r>.json: the time at which each epoch's training ended
and the loss of every step on this rank. Rank 0 saves model and optimizer after each epoch, as `muster train` does.
"""

import argparse
import gzip
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

MEAN, DEVIATION = 0.2860, 0.3530


class Mlp(nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.fc1, self.fc2 = nn.Linear(64 * 7 * 7, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x)), inplace=True), 2).flatten(1)
        return self.fc2(F.relu(self.fc1(x), inplace=True))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(28, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc(self.lstm(x.squeeze(1))[1][0][-1])


def make_model(name):
    torch.manual_seed(0)
    if name == "resnet18":
        from torchvision.models import resnet18  # the others need no torchvision, nor its time and memory
        return resnet18(num_classes=10)
    return {"mlp": Mlp, "cnn": Cnn, "lstm": Lstm}[name]()


def read(folder, name, header):
    with gzip.open(Path(folder) / name) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=header)


class Images(Dataset):
    """Bytes in memory, normalised when asked for. __getitems__ gets a whole batch: what DataLoader asks for first."""

    def __init__(self, folder, split, channels):
        self.images = read(folder, f"{split}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
        self.labels = read(folder, f"{split}-labels-idx1-ubyte.gz", 8).long()
        self.channels = channels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, indices):
        images = self.images[indices].float().div_(255).sub_(MEAN).div_(DEVIATION)
        return (images.repeat(1, self.channels, 1, 1) if self.channels > 1 else images), self.labels[indices]

    __getitems__ = __getitem__


def batches(dataset, sampler, batch_size, loader):
    if loader == "dataloader":
        yield from DataLoader(dataset, batch_size, sampler=sampler, collate_fn=lambda batch: batch)
        return
    for indices in torch.tensor(list(sampler)).split(batch_size):
        yield dataset[indices]


def train_epoch(model, optimizer, loader):
    losses, correct = [], torch.zeros((), dtype=torch.long)
    for images, labels in loader:
        optimizer.zero_grad()
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        correct += (scores.detach().argmax(1) == labels).sum()
    return losses, correct.item()


def evaluate(model, dataset, rank, world):
    model.eval()
    correct = 0
    with torch.inference_mode():
        for indices in torch.arange(rank, len(dataset), world).split(256):
            images, labels = dataset[indices]
            correct += (model(images).argmax(1) == labels).sum().item()
    return correct


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name, default in {"data-dir": None, "model": "mlp", "batch-size": 128, "epochs": 3, "optimizer": "fused",
                          "loader": "indexed", "out": "."}.items():
        parser.add_argument(f"--{name}", type=type(default) if default is not None else str, default=default)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    channels = 3 if arguments.model == "resnet18" else 1
    train, test = (Images(arguments.data_dir, split, channels) for split in ("train", "t10k"))
    sampler = DistributedSampler(train, num_replicas=world, rank=rank, shuffle=True, seed=0)
    module = make_model(arguments.model)
    model = DistributedDataParallel(module) if world > 1 else module
    ways = {"fused": {"fused": True}, "foreach": {"foreach": True}, "default": {}}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **ways[arguments.optimizer])
    notes = {"ended": [], "losses": [], "threads": torch.get_num_threads()}
    for epoch in range(arguments.epochs):
        model.train()
        sampler.set_epoch(epoch)
        losses, _ = train_epoch(model, optimizer, batches(train, sampler, arguments.batch_size // world, arguments.loader))
        notes["ended"].append(time.perf_counter())
        notes["losses"] += losses
        if rank == 0:
            torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, Path(arguments.out, "last.pt"))
    notes["correct"] = evaluate(module, test, rank, world)
    Path(arguments.out, f"rank{rank}.json").write_text(json.dumps(notes))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
