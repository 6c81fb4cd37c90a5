"""muster's transforms beside torchvision's on this machine: the same bytes from the same seeds, and every byte of resized images by
Pillow and torchvision, over random sizes. Images go to the twin as raw bytes."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
sys.path[:0] = [str(GOLDEN / "transforms"), str(GOLDEN / "image")]
from cases import EXACT, FLOATS, SAMPLED  # noqa: E402

SEEDS = range(25)
DTYPES = {torch.uint8: "uint8", torch.float32: "float32", torch.float64: "float64"}


@pytest.fixture
def twin(program):
    def ask(cases):
        """cases: (chain, seed, image); the images that the chains give."""
        lines = b""
        for chain, seed, image in cases:
            head = {"chain": chain, "seed": seed, "shape": list(image.shape), "dtype": DTYPES[image.dtype]}
            lines += json.dumps(head).encode() + b"\n" + image.contiguous().numpy().tobytes()
        done = subprocess.run([program("transform_twin")], input=lines, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr.decode()
        out, at = [], 0
        for _ in cases:
            end = done.stdout.index(b"\n", at)
            head = json.loads(done.stdout[at:end])
            dtype = getattr(torch, head["dtype"])
            at = end + 1 + head["bytes"]
            out.append(torch.frombuffer(bytearray(done.stdout[end + 1:at]), dtype=dtype).view(head["shape"]))
        return out

    return ask


def photo(draw, channels=3, height=None, width=None):
    """Smooth shades with some noise and edges."""
    height, width = height or draw.randint(20, 90), width or draw.randint(20, 90)
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 90 * np.sin(x / draw.uniform(3, 30) + y / draw.uniform(3, 30)) for _ in range(channels)]
    noise = np.random.default_rng(draw.randrange(2**32)).normal(0, 12, (channels, height, width))
    return torch.tensor(np.clip(np.stack(planes) + noise, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("chain", [*EXACT, *SAMPLED])
def test_bytes_from_the_same_seeds(twin, chain):
    transform = EXACT.get(chain) or SAMPLED[chain]
    draw = random.Random(chain)
    # Kernels for three channels are others than for one; fills of three are for three.
    cases = [(chain, seed, photo(draw, 3 if seed % 4 or "fill=[" in chain or "value=[" in chain else 1)) for seed in SEEDS]
    for (_, seed, image), ours in zip(cases, twin(cases)):
        torch.manual_seed(seed)
        assert torch.equal(transform(image), ours), (seed, image.shape)


@pytest.mark.parametrize("chain", FLOATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_from_the_same_seeds(twin, chain, dtype):
    if dtype == torch.float64 and "to_dtype:dtype=float64" in chain:
        pytest.skip("nothing is converted")
    draw = random.Random(chain)
    cases = [(chain, seed, photo(draw).to(dtype) / 255) for seed in SEEDS]
    for (_, seed, image), ours in zip(cases, twin(cases)):
        torch.manual_seed(seed)
        assert torch.equal(FLOATS[chain](image), ours), (seed, image.shape)


PILLOW = {"nearest": Image.Resampling.NEAREST, "box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR,
          "hamming": Image.Resampling.HAMMING, "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}


def random_sizes(draw, count):
    side = lambda: int(2 ** draw.uniform(0, 9))  # noqa: E731
    return [((side(), side()), (side(), side())) for _ in range(count)]


@pytest.mark.parametrize("name", PILLOW)
@pytest.mark.parametrize("channels", [1, 3])
def test_resize_has_every_byte_of_pillow(twin, name, channels):
    draw = random.Random(name)
    sizes = random_sizes(draw, 60)
    cases = [(f"resize:size=[{h},{w}],interpolation={name},reference=pillow", 0, photo(draw, channels, *before))
             for before, (h, w) in sizes]
    for (_, _, image), (_, (h, w)), ours in zip(cases, sizes, twin(cases)):
        array = image.permute(1, 2, 0).numpy()
        picture = Image.fromarray(array[:, :, 0] if channels == 1 else array).resize((w, h), PILLOW[name])
        theirs = torch.tensor(np.asarray(picture)).view(h, w, channels).permute(2, 0, 1)
        assert torch.equal(theirs, ours), (image.shape, h, w)


@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos", "nearest", "nearest-exact"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_resize_has_every_byte_of_torchvision(twin, name, antialias, channels):
    if name == "lanczos" and not antialias:
        pytest.skip("lanczos needs antialias")
    draw = random.Random(name)
    sizes = random_sizes(draw, 40)
    if channels > 4:  # PyTorch 2.15 repeats one pixel in a column that is one pixel wide
        sizes = [(before, (h, max(w, 2))) for before, (h, w) in sizes]
    cases = [(f"resize:size=[{h},{w}],interpolation={name},antialias={str(antialias).lower()}", 0, photo(draw, channels, *before))
             for before, (h, w) in sizes]
    for (_, _, image), (_, (h, w)), ours in zip(cases, sizes, twin(cases)):
        if channels == 3 and (h, w) == (1, 1):  # PyTorch 2.15 fails
            theirs = torch.cat([functional.resize(one, [h, w], interpolation=InterpolationMode(name), antialias=antialias)
                                for one in image.split(1)])
        else:
            theirs = functional.resize(image, [h, w], interpolation=InterpolationMode(name), antialias=antialias)
        assert torch.equal(theirs, ours), (image.shape, h, w)


def test_a_large_images_mean_is_added_up_as_torch_does(twin):
    # Above 2^24 a sum of float32 hangs on its order, and contrast on the mean.
    draw = random.Random(5)
    chain = "color_jitter:contrast=[0.3,0.9]"
    cases = [(chain, seed, photo(draw, channels, 500, 700)) for seed, channels in [(0, 3), (1, 3), (2, 1)]]
    torch.set_num_threads(1)
    for (_, seed, image), ours in zip(cases, twin(cases)):
        torch.manual_seed(seed)
        assert torch.equal(v2.ColorJitter(contrast=(0.3, 0.9))(image), ours), seed
