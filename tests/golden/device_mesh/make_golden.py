"""Writes golden.json beside this file: where torch's init_device_mesh puts each rank, and whom into its groups.

Run it with the peers' Python: .venv/bin/python tests/golden/device_mesh/make_golden.py
"""

import json
from pathlib import Path

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

SHAPES = [
    {"data": 4},
    {"data": 2, "pipeline": 2},
    {"data": 2, "pipeline": 3},
    {"data": 2, "pipeline": 2, "shard": 2},
    {"data": 1, "pipeline": 3, "shard": 2},
]


def ranks_of(shape):
    world = 1
    for size in shape.values():
        world *= size
    for rank in range(world):
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        mesh = init_device_mesh("cpu", tuple(shape.values()), mesh_dim_names=tuple(shape))
        yield {
            "coordinates": list(mesh.get_coordinate()),
            "groups": {name: dist.get_process_group_ranks(mesh.get_group(name)) for name in shape},
            "places": {name: mesh.get_local_rank(name) for name in shape},
        }
        dist.destroy_process_group()


def text_of(shape):
    ranks = ",\n   ".join(json.dumps(rank) for rank in ranks_of(shape))
    return f'  {{"axes": {json.dumps(list(shape.items()))}, "ranks": [\n   {ranks}]}}'


def main():
    text = '{"meshes": [\n' + ",\n".join(text_of(shape) for shape in SHAPES) + "]}\n"
    Path(__file__).with_name("golden.json").write_text(text)


main()
