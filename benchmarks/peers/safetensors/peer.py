"""The Python side of benchmarks/peers/safetensors: what safetensors_io.cpp does, by PyPI's `safetensors`.

    .venv/bin/python benchmarks/peers/safetensors/peer.py FILE MEGABYTES
"""

import json
import os
import resource
import sys
import time

import torch
from safetensors.torch import load_file, save_file


def seconds(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def synced_save(tensors, path):
    save_file(tensors, path)
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def main():
    path, megabytes = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    tensors = {f"layer.{i}": torch.full((2_500_000,), 0.5) for i in range(megabytes // 10)}
    out = {"write": seconds(lambda: save_file(tensors, path)), "write, synced": seconds(lambda: synced_save(tensors, path))}
    del tensors
    out["open"] = seconds(lambda: load_file(path))
    sums = []
    out["open and sum"] = seconds(lambda: sums.append(sum(t.sum().item() for t in load_file(path).values())))
    out["read to own memory"] = seconds(lambda: [t.clone() for t in load_file(path).values()])
    print(json.dumps(out | {"sum": sums[0], "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


main()
