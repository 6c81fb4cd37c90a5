"""Writes golden.json beside this file: the indices that Python's DistributedSampler and RandomSampler give.

Small configurations hold every rank's whole list; large ones a hash, the length, and both ends. The hash is FNV-1a over
whole indices: h = (h ^ index) * 0x100000001b3 modulo 2^64, from 0xcbf29ce484222325.
Run it with the peers' Python: .venv/bin/python tests/golden/sampler/make_golden.py
"""

import itertools
import json
from pathlib import Path

import torch
from torch.utils.data import RandomSampler
from torch.utils.data.distributed import DistributedSampler


def fnv(indices):
    h = 0xCBF29CE484222325
    for index in indices:
        h = (h ^ index) * 0x100000001B3 % 2**64
    return f"{h:016x}"


def distributed(n, world, rank, seed, epoch, shuffle, drop_last):
    sampler = DistributedSampler(range(n), num_replicas=world, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    indices = list(sampler)
    assert len(indices) == len(sampler)
    return indices


def small():
    for n, world, drop_last in itertools.product((0, 1, 2, 3, 5, 7, 8, 16, 33), (1, 2, 3, 4, 7), (False, True)):
        for seed, epoch, shuffle in ((0, 0, False), (3, 4, False), (0, 0, True), (0, 1, True), (5, 2, True)):
            yield {
                "n": n, "world": world, "seed": seed, "epoch": epoch, "shuffle": shuffle, "drop_last": drop_last,
                "ranks": [distributed(n, world, rank, seed, epoch, shuffle, drop_last) for rank in range(world)],
            }


def large():
    for n, world, seed, epoch, drop_last in (
        (60000, 1, 0, 0, False), (60000, 2, 0, 0, False), (60000, 2, 42, 9, False), (60000, 7, 1, 3, False),
        (60000, 7, 1, 3, True), (60000, 64, 123456789, 1, True), (10000, 4, 2**40 + 7, 2, False), (59999, 2, 0, 1, False),
        (59999, 2, 0, 1, True), (1000003, 3, 2**63 - 10, 5, False),
    ):
        for rank in sorted({0, world - 1}):
            indices = distributed(n, world, rank, seed, epoch, True, drop_last)
            yield {
                "n": n, "world": world, "rank": rank, "seed": seed, "epoch": epoch, "drop_last": drop_last,
                "count": len(indices), "first": indices[:5], "last": indices[-5:], "fnv": fnv(indices),
            }


def random():
    for n, seed, epoch in ((1, 0, 0), (10, 0, 0), (10, 0, 1), (37, 11, 4)):
        for replacement, num_samples in ((False, None), (False, 5), (False, 23), (False, 74), (True, None), (True, 5), (True, 70)):
            generator = torch.Generator().manual_seed(seed + epoch)
            sampler = RandomSampler(range(n), replacement=replacement, num_samples=num_samples, generator=generator)
            yield {
                "n": n, "seed": seed, "epoch": epoch, "replacement": replacement, "num_samples": num_samples or 0,
                "indices": list(sampler),
            }


def lines(configurations):
    return "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in configurations) + "\n]"


text = f'{{"small":{lines(small())},\n"large":{lines(large())},\n"random":{lines(random())}}}\n'
json.loads(text)
(Path(__file__).parent / "golden.json").write_text(text)
