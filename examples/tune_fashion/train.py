"""Fashion-MNIST in plain PyTorch, to be tuned by study_python.toml; runs by itself as well.

    python3 train.py --l1 64 --lr 0.01 --batch-size 64 --epochs 2

It reports by printing a line per epoch: [tune-metric]: {"loss": 0.41, "accuracy": 0.85, "step": 1}
"""
import argparse
import gzip
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


def read(folder, split):
    images = gzip.decompress((folder / f"{split}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / f"{split}-labels-idx1-ubyte.gz").read_bytes())
    images = torch.frombuffer(bytearray(images), dtype=torch.uint8, offset=16).view(-1, 784)
    return (images.float() / 255 - 0.286) / 0.353, torch.frombuffer(bytearray(labels), dtype=torch.uint8, offset=8).long()


def train_epoch(model, optimizer, images, labels, batch_size):
    model.train()
    for batch in torch.randperm(len(labels)).split(batch_size):
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()


def evaluate(model, images, labels):
    model.eval()
    with torch.inference_mode():
        scores = model(images)
        return F.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--l1", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--train-samples", type=int, default=55000)
    parser.add_argument("--data-dir", type=Path, default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()
    torch.manual_seed(0)
    images, labels = read(options.data_dir, "train")
    held_out = images[55000:], labels[55000:]
    images, labels = images[:options.train_samples], labels[:options.train_samples]
    model = nn.Sequential(nn.Linear(784, options.l1), nn.ReLU(), nn.Linear(options.l1, options.l1), nn.ReLU(),
                          nn.Linear(options.l1, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    for epoch in range(1, options.epochs + 1):
        train_epoch(model, optimizer, images, labels, options.batch_size)
        loss, accuracy = evaluate(model, *held_out)
        print("[tune-metric]:", json.dumps({"loss": loss, "accuracy": accuracy, "step": epoch}), flush=True)


if __name__ == "__main__":
    main()
