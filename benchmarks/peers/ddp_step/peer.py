"""The Python side of benchmarks/peers/ddp_step: DistributedDataParallel over gloo. Takes the commands of ddp_step.cpp.

SGD is the fused one, the fastest of PyTorch's on a CPU. Of the options of `setup` it knows same_batch.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from rank_orders import next_order


def train_peer():
    """benchmarks/peers/train/peer.py, whose models these are."""
    path = Path(__file__).resolve().parents[1] / "train" / "peer.py"
    spec = importlib.util.spec_from_file_location("train_peer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODELS = {"mlp": ((1, 28, 28), 64), "cnn": ((1, 28, 28), 32), "resnet18": ((3, 32, 32), 32), "lstm": ((1, 28, 28), 64)}  # as in ddp_step.cpp


def make_model(name):
    peer = train_peer()
    if name != "mlp":
        return peer.make_model(name)
    torch.manual_seed(0)
    return peer.Mlp(hidden=2048)


class Side:
    def __init__(self, name, same_batch=0):
        shape, batch = MODELS[name]
        net = make_model(name)
        torch.manual_seed(100 + (0 if same_batch else dist.get_rank()))
        self.images = torch.randn(batch, *shape)
        self.labels = torch.randint(0, 10, (batch,))
        self.model = DistributedDataParallel(net)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)

    def step(self):
        """The loss, and when the step's parts began and the last ended."""
        marks = [time.perf_counter()]
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.images), self.labels)
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        self.optimizer.step()
        return loss.detach(), marks + [time.perf_counter()]

    def losses(self, count):
        losses = torch.tensor([self.step()[0].item() for _ in range(count)], dtype=torch.double)
        dist.all_reduce(losses)
        return {"losses": (losses / dist.get_world_size()).tolist()}

    def time_steps(self, count):
        dist.barrier()
        start, cpu_start = time.perf_counter(), time.process_time()
        parts = [0.0] * 3
        for _ in range(count):
            marks = self.step()[1]
            for part in range(3):
                parts[part] += marks[part + 1] - marks[part]
        wall = torch.tensor([time.perf_counter() - start], dtype=torch.double)
        sums = torch.tensor([*parts, time.process_time() - cpu_start], dtype=torch.double)
        dist.all_reduce(wall, dist.ReduceOp.MAX)
        dist.all_reduce(sums)
        forward, backward, update = (sums[:3] / dist.get_world_size()).tolist()
        return {"seconds": wall.item(), "forward": forward, "backward": backward, "update": update, "cpu_seconds": sums[3].item()}


def answer_to(command, words, sides):
    if command == "drop":
        sides.clear()
        return {}
    name, what, *options = words
    if command == "setup":
        sides[name] = Side(what, **{key: int(value) for key, value in (word.split("=") for word in options)})
        return {}
    return sides[name].losses(int(what)) if command == "losses" else sides[name].time_steps(int(what))


def main():
    dist.init_process_group("gloo")
    sides = {}
    while order := next_order():
        answer = answer_to(order[0], order[1:], sides)
        if dist.get_rank() == 0:
            print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
