"""Writes golden.json beside this file: a small MLP trained by torch.autocast on the CPU, in bfloat16 and in float16 with
torch.amp.GradScaler("cpu"), by SGD and AdamW; C++ follows in tests/train/loop/mixed_precision_golden_test.cpp.

Model: manual_seed(7), then Linear(16, 8), ReLU, Linear(8, 4): muster's mlp:hidden=8,layers=1 on 1 x 4 x 4 images.
Data: g = Generator().manual_seed(70); images rand(32, 1, 4, 4, generator=g) * 4 - 2, then labels randint(0, 4, (32,)).
Steps: batches of 8 in the order of DistributedSampler with one replica, seed 7, for 3 epochs; clipped to a norm of 0.5
after unscale_ where `clip` says so. The scale starts so high that the first steps of "float16" overflow.
For each case the parameters, scale, growth tracker and skipped steps at the end; `from_float32` is the largest distance to
the parameters of the same run without autocast, so that a test can tell mixed precision from none. Ours were within 4e-8
with oneDNN's AVX2 to AVX512-BF16 and with ATEN_CPU_CAPABILITY=default.
Not fused: the fused SGD of 2.15 leaves its momentum buffers as they were allocated when the scaler skips the first step.

Run it with the peers' Python: ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 .venv/bin/python tests/golden/mixed_precision/make_golden.py
"""

import contextlib
import json
from pathlib import Path

import torch

EPOCHS, BATCH, SAMPLES, SEED = 3, 8, 32, 7
OPTIMIZERS = {
    "sgd": ("sgd:momentum=0.9", 0.1, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "adamw": ("adamw", 0.01, lambda p: torch.optim.AdamW(p, lr=0.01)),
}
SCALER = {"init_scale": 2.0**27, "growth_factor": 2.0, "backoff_factor": 0.25, "growth_interval": 3}


def data():
    g = torch.Generator().manual_seed(70)
    return torch.rand(SAMPLES, 1, 4, 4, generator=g) * 4 - 2, torch.randint(0, 4, (SAMPLES,), generator=g)


def order(epoch):
    return torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(SEED + epoch))


def train(dtype, make_optimizer, clip):
    torch.manual_seed(SEED)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    optimizer = make_optimizer(net.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16, **SCALER)
    images, labels = data()
    skipped = 0
    for epoch in range(EPOCHS):
        for batch in order(epoch).split(BATCH):
            optimizer.zero_grad()
            autocast = torch.autocast("cpu", dtype=dtype) if dtype else contextlib.nullcontext()
            with autocast:
                loss = torch.nn.functional.cross_entropy(net(images[batch]), labels[batch])
            scaler.scale(loss).backward()
            if clip:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            skipped += scaler.get_scale() < before
    return torch.cat([p.detach().flatten() for p in net.parameters()]), scaler.state_dict(), skipped


def case(precision, optimizer, clip):
    spec, lr, make = OPTIMIZERS[optimizer]
    dtype = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}[precision]
    parameters, state, skipped = train(dtype, make, clip)
    spelled = "" if dtype != torch.float16 else ":" + ",".join(f"{name}={value:.10g}" for name, value in SCALER.items())
    return {"precision": precision + spelled, "optimizer": spec, "lr": lr, "clip": clip, "skipped": skipped,
            "scale": state.get("scale"), "growth_tracker": state.get("_growth_tracker"),
            "tolerance": 1e-6, "from_float32": (train(None, make, clip)[0] - parameters).abs().max().item(),
            "parameters": [float(f"{value:.9g}") for value in parameters.tolist()]}


def main():
    cases = [case(precision, optimizer, clip)
             for precision in ("bf16-mixed", "16-mixed") for optimizer in OPTIMIZERS for clip in (0, 0.5)]
    golden = {"torch": torch.__version__.split("+")[0], "cases": cases}
    text = json.dumps(golden).replace('{"precision"', '\n{"precision"')
    Path(__file__).with_name("golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
