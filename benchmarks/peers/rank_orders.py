"""Orders from stdin of rank 0, on all ranks: the Python side of rank_program.h."""

import sys

import torch
import torch.distributed as dist


def next_order():
    """The words of the next line; none at its end. At most 255 bytes of it."""
    text = torch.zeros(256, dtype=torch.uint8)
    if dist.get_rank() == 0:
        line = sys.stdin.readline().rstrip("\n").encode()
        text[:len(line)] = torch.tensor(list(line), dtype=torch.uint8)
    dist.broadcast(text, 0)
    return bytes(text.tolist()).rstrip(b"\0").decode().split()
