"""The Python side of benchmarks/peers/pipeline: torch.distributed.pipelining over gloo, two processes. As pipeline_step.cpp."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import pipelining

LAYERS, WIDTH = 8, 1024
SCHEDULES = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B, "interleaved": pipelining.ScheduleInterleaved1F1B}


def stage_layers(count, of):
    torch.manual_seed(1)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    size = 2 * LAYERS // of
    return torch.nn.Sequential(*layers[count * size:(count + 1) * size])


def run(rank, schedule_name, micro_batches, batch, steps, answers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PEER_PORT"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    numbers = [rank, rank + 2] if schedule_name == "interleaved" else [rank]
    stages = [pipelining.PipelineStage(stage_layers(n, 2 * len(numbers)), n, 2 * len(numbers), torch.device("cpu")) for n in numbers]
    loss_fn = torch.nn.functional.mse_loss
    made = SCHEDULES[schedule_name](stages if len(stages) > 1 else stages[0], n_microbatches=micro_batches, loss_fn=loss_fn)
    optimizer = torch.optim.SGD([p for s in stages for p in s.submod.parameters()], 0.01)
    torch.manual_seed(2)
    x, y = torch.randn(batch, WIDTH), torch.randn(batch, WIDTH)
    seconds, loss = [], None
    for _ in range(steps):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            made.step(x)
        else:
            made.step(target=y, losses=losses)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        loss = float(sum(losses) / len(losses)) if losses else None
    whole = torch.tensor(seconds)
    dist.all_reduce(whole, dist.ReduceOp.MAX)
    if rank == 1:
        answers.put({"pipeline": whole.tolist(), "loss": loss})
    dist.destroy_process_group()


def main():
    schedule, micro_batches, batch, steps = sys.argv[1], *map(int, sys.argv[2:])
    answers = mp.get_context("spawn").SimpleQueue()
    mp.spawn(run, (schedule, micro_batches, batch, steps, answers), nprocs=2)
    print(json.dumps(answers.get()))


if __name__ == "__main__":
    main()
