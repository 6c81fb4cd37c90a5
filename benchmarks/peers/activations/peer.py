"""The Python side of benchmarks/peers/activations: torch.utils.checkpoint(use_reentrant=False). As activations_step.cpp."""

import json
import sys
import time
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from process_status import status_mib


def main():
    again = sys.argv[1] == "blocks"
    count, width, batch, tokens, steps = map(int, sys.argv[2:])
    torch.manual_seed(1)
    layers = torch.nn.ModuleList(
        torch.nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(count))
    optimizer = torch.optim.SGD(layers.parameters(), 0.01)
    data = torch.randn(batch, tokens, width)
    before = status_mib("VmRSS")
    seconds, loss = [], None
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        x = data
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        value = loss.item()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "loss": value, "peak_mib": status_mib("VmHWM") - before,
                      "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
