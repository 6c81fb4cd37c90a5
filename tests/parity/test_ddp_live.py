"""C++ DDP under `muster run` beside Python DDP under torchrun, on models and options drawn from a seed.

Unlike the golden this covers BatchNorm in training mode (each rank normalises by its own rows, and rank 0's running
statistics go to all before each forward) and draws new combinations of options.
"""

import json
import random
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# AdamW divides each gradient by its own size, so where gradients are small it magnifies their last bits.
TOLERANCE = {("float64", "sgd"): 1e-12, ("float64", "adamw"): 1e-11, ("float32", "sgd"): 2e-6, ("float32", "adamw"): 2e-5}


def draw_spec(seed, world):
    rng = random.Random(1000 * world + seed)
    spare = rng.random() < 0.3
    return {
        "seed": seed,
        "dtype": rng.choice(["float64", "float32"]),
        "widths": [rng.randint(2, 12) for _ in range(rng.randint(3, 5))],
        "rows_per_rank": rng.randint(3, 8),
        "steps": rng.randint(2, 5),
        "micro_steps": rng.choice([1, 1, 2, 3]),
        "optimizer": rng.choice(["sgd", "adamw"]),
        "lr": rng.choice([0.05, 0.01]),
        "batch_norm": rng.random() < 0.5,
        "spare_layer": spare,
        "find_unused_parameters": spare or rng.random() < 0.2,
        "gradient_as_bucket_view": rng.random() < 0.4,
        "bucket_bytes": rng.choice([64, 512, 25 << 20]),
    }


def largest_difference(ours, theirs):
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        return max((largest_difference(ours[key], theirs[key]) for key in theirs), default=0)
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        return max((largest_difference(*pair) for pair in zip(ours, theirs)), default=0)
    return abs(ours - theirs)


@pytest.mark.parametrize("world", [2, 3])
def test_cpp_ddp_ends_where_python_ddp_ends(world, program, torchrun, run, tmp_path):
    specs = [draw_spec(seed, world) for seed in range(20)]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    for side in ("cpp", "python"):
        (tmp_path / side).mkdir()
    run(program("muster"), "run", "--nproc-per-node", world, "--", program("ddp_twin"), "specs.json", tmp_path / "cpp")
    run(torchrun, "--nproc-per-node", world, HERE / "ddp_twin.py", "specs.json", tmp_path / "python")
    for rank in range(world):
        ours, theirs = (json.loads((tmp_path / side / f"rank{rank}.json").read_text()) for side in ("cpp", "python"))
        for spec, our, their in zip(specs, ours, theirs, strict=True):
            assert largest_difference(our, their) <= TOLERANCE[spec["dtype"], spec["optimizer"]], f"rank {rank} of {spec}"
