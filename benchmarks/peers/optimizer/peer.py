"""The Python sides of benchmarks/peers/optimizer: torch.optim's single-tensor, foreach and fused paths.

Takes the commands of optimizer_step.cpp; its variants are single, foreach and fused.
"""

import json
import sys
import time

import torch

LR = 1e-3
PATHS = {"single": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def resnet18():
    shapes, before = [(64, 3, 7, 7), (64,), (64,)], 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            first = before if block == 0 else width
            shapes += [(width, first, 3, 3), (width,), (width,), (width, width, 3, 3), (width,), (width,)]
            if first != width:
                shapes += [(width, first, 1, 1), (width,), (width,)]
        before = width
    return [*shapes, (1000, 512), (1000,)]


LISTS = {
    "mlp": [(2048, 784), (2048,), (2048, 2048), (2048,), (10, 2048), (10,)],
    "resnet18": resnet18(),
    "tiny": [(16,)] * 500 + [(8, 8)] * 500,
}


def setup(variant, name, list_name):
    values, gradients = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    parameters = []
    for shape in LISTS[list_name]:
        parameter = torch.rand(shape, generator=values).requires_grad_()
        parameter.grad = torch.rand(shape, generator=gradients)
        parameters.append(parameter)
    if name == "sgd":
        return parameters, torch.optim.SGD(parameters, lr=LR, momentum=0.9, **PATHS[variant])
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}[name]
    path = {key: value for key, value in PATHS[variant].items() if name != "rmsprop" or key != "fused"}
    return parameters, kind(parameters, lr=LR, **path)


def step(optimizer, count):
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(count):
        optimizer.step()
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}


def main():
    sides = {}
    for line in sys.stdin:
        command, *words = line.split()
        answer = {}
        if command == "setup":
            sides[words[0]] = setup(*words)
        elif command == "step":
            answer = step(sides[words[0]][1], int(words[1]))
        elif command == "sum":
            answer["sum"] = sum(parameter.detach().double().abs().sum().item() for parameter in sides[words[0]][0])
        elif command == "drop":
            sides.clear()
        elif command == "threads":
            answer["threads"] = torch.get_num_threads()
        else:
            sys.exit(f"peer.py: no such command: {command}")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
