"""The images that goldens of muster::image and muster::data are made of: tests/image/test_images.h makes the same."""

import torch


def noise(shape, seed):
    """Bytes of a linear congruential generator (Numerical Recipes' constants), its highest 8 bits each."""
    state, values = seed, bytearray()
    count = shape[0] * shape[1] * shape[2]
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append(state >> 24)
    return torch.tensor(list(values), dtype=torch.uint8).view(shape)


def slopes(shape, seed):
    """Ramps that differ by channel, with an edge now and then: what photographs are like, more than noise."""
    c, y, x = torch.meshgrid(*(torch.arange(n) for n in shape), indexing="ij")
    return ((x * (5 + seed) + y * 3 + c * 50 + x * y // 7) % 256).to(torch.uint8)


KINDS = {"noise": noise, "slopes": slopes}


def digest(tensor):
    """FNV-1a of 64 bits over the bytes of a uint8 tensor, as muster's digest_of; as text, since JSON's numbers are doubles."""
    value = 0xcbf29ce484222325
    for byte in tensor.contiguous().numpy().tobytes():
        value = ((value ^ byte) * 0x100000001b3) % 2**64
    return f"{value:016x}"
