"""A Python program as people write it for torchrun: reads its rank from the environment, reduces, trains by DDP."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method="env://")
rank, world = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["RANK"]) and world == int(os.environ["WORLD_SIZE"])
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)

torch.manual_seed(rank)  # other weights on each rank: DDP must make them rank 0's
model = DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.full((2, 3), float(rank))).sum().backward()
optimizer.step()
weight = model.module.weight.detach().flatten().tolist()
print("sum", total.item(), flush=True)
with open(f"{sys.argv[1]}/rank{rank}.json", "w") as file:
    json.dump({"sum": total.item(), "weight": weight, "threads": torch.get_num_threads()}, file)
while not all(os.path.exists(f"{sys.argv[1]}/rank{other}.json") for other in range(world)):
    time.sleep(0.01)
os._exit(0)  # PyTorch 2.15 over gloo dies of SIGABRT now and then at its end
