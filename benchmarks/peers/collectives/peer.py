"""The Python side of benchmarks/peers/collectives: torch.distributed over gloo. Takes the commands of collectives.cpp."""

import json
import sys
import time

import torch
import torch.distributed as dist


def next_order():
    words = torch.zeros(3, dtype=torch.long)
    if dist.get_rank() == 0:
        line = sys.stdin.readline().split()
        if line:
            words = torch.tensor([1 if line[0] == "reduce" else 2, int(line[1]), int(line[2]) if len(line) > 2 else 1])
    dist.broadcast(words, 0)
    return words.tolist()


def time_reductions(size, count):
    tensor = torch.zeros(size // 4)
    dist.barrier()
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(count):
        dist.all_reduce(tensor)
    wall = torch.tensor([time.perf_counter() - start], dtype=torch.double)
    cpu = torch.tensor([time.process_time() - cpu_start], dtype=torch.double)
    dist.all_reduce(wall, dist.ReduceOp.MAX)
    dist.all_reduce(cpu)
    return {"seconds": wall.item(), "cpu_seconds": cpu.item()}


def check(size):
    tensor = torch.full((size // 4,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor)
    return {"sum": tensor.double().sum().item()}


def main():
    dist.init_process_group("gloo")
    while True:
        command, size, count = next_order()
        if command == 0:
            break
        answer = time_reductions(size, count) if command == 1 else check(size)
        if dist.get_rank() == 0:
            print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
