"""The Python side of benchmarks/peers/train: what `muster train` does, as a careful PyTorch user writes it.

    peer.py --data-dir DIR --model resnet18 --batch-size 32 --epochs 3 --out DIR        (alone, or under torchrun)

DIR holds Fashion-MNIST's gz files. The images stay bytes in memory and a batch is made at once by indexing: faster than
a DataLoader, which collates sample by sample. With --device cuda a batch goes by pinned memory and nothing waits for the
device within an epoch; --loader resident has all images on the device, which is the most that a user can do. Rank r writes
OUT/rank<r>.json: the time at which each epoch's training ended and the loss of every step on this rank. Rank 0 saves model and optimizer after each epoch, as `muster train` does.
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


class Transformer(nn.Module):
    def __init__(self, patch=4, width=256, heads=8, layers=4, feedforward=1024):
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.positions = nn.Parameter(nn.init.normal_(torch.empty(1, (28 // patch) ** 2, width), 0, 0.02))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, feedforward, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def make_model(name):
    torch.manual_seed(0)
    if name == "resnet18":
        from torchvision.models import resnet18  # the others need no torchvision, nor its time and memory
        return resnet18(num_classes=10)
    return {"mlp": Mlp, "cnn": Cnn, "lstm": Lstm, "transformer": Transformer}[name.split(":")[0]]()


def read(folder, name, header):
    with gzip.open(Path(folder) / name) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=header)


class Images(Dataset):
    """Bytes in memory, normalised when asked for. __getitems__ gets a whole batch: what DataLoader asks for first."""

    def __init__(self, folder, split, channels, device="cpu"):
        self.images = read(folder, f"{split}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).to(device)
        self.labels = read(folder, f"{split}-labels-idx1-ubyte.gz", 8).long().to(device)
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
    for indices in torch.tensor(list(sampler)).to(dataset.labels.device).split(batch_size):
        yield dataset[indices]


def placed(batch, device):
    if device == "cpu" or batch[0].is_cuda:
        return batch
    return tuple(tensor.pin_memory().to(device, non_blocking=True) for tensor in batch)


def train_epoch(model, optimizer, loader, device):
    losses, correct = [], torch.zeros((), dtype=torch.long, device=device)
    for images, labels in (placed(batch, device) for batch in loader):
        optimizer.zero_grad()
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach() if device == "cuda" else loss.item())
        correct += (scores.detach().argmax(1) == labels).sum()
    return torch.stack(losses).tolist() if device == "cuda" else losses, correct.item()


def evaluate(model, dataset, rank, world, device):
    model.eval()
    correct = 0
    with torch.inference_mode():
        for indices in torch.arange(rank, len(dataset), world).to(dataset.labels.device).split(256):
            images, labels = placed(dataset[indices], device)
            correct += (model(images).argmax(1) == labels).sum().item()
    return correct


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name, default in {"data-dir": None, "model": "mlp", "batch-size": 128, "epochs": 3, "optimizer": "fused",
                          "loader": "indexed", "out": ".", "device": "cpu"}.items():
        parser.add_argument(f"--{name}", type=type(default) if default is not None else str, default=default)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    channels = 3 if arguments.model == "resnet18" else 1
    device = arguments.device
    where = device if arguments.loader == "resident" else "cpu"
    train, test = (Images(arguments.data_dir, split, channels, where) for split in ("train", "t10k"))
    sampler = DistributedSampler(train, num_replicas=world, rank=rank, shuffle=True, seed=0)
    module = make_model(arguments.model).to(device)
    model = DistributedDataParallel(module) if world > 1 else module
    ways = {"fused": {"fused": True}, "foreach": {"foreach": True}, "default": {}}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **ways[arguments.optimizer])
    notes = {"ended": [], "losses": [], "threads": torch.get_num_threads()}
    for epoch in range(arguments.epochs):
        model.train()
        sampler.set_epoch(epoch)
        losses, _ = train_epoch(model, optimizer, batches(train, sampler, arguments.batch_size // world, arguments.loader),
                                device)
        notes["ended"].append(time.perf_counter())
        notes["losses"] += losses
        if rank == 0:
            torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, Path(arguments.out, "last.pt"))
    notes["correct"] = evaluate(module, test, rank, world, device)
    Path(arguments.out, f"rank{rank}.json").write_text(json.dumps(notes))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
