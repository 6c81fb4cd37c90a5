#!/usr/bin/env python3
"""Writes golden.json: how Ray Tune puts parameters into the names of trials.

    make_golden.py        needs ray[tune] 2.60.0
"""
import json
import pathlib

from ray.tune.search.variant_generator import format_vars

CONFIGS = [
    {"lr": 0.00123456, "l1": 64, "batch_size": 4},
    {"optimizer.lr": 1e-5, "optimizer.name": "sgd/nesterov", "a": True},
    {"z": -0.5, "b.z": "größe (x)", "b.a": "__x__", "c": "a..b::c", "B": 3},
    {"big": 123456789.125, "text": "no-change_1", "only": "///"},
]


def main():
    golden = [{"params": params, "tag": format_vars({tuple(name.split(".")): value for name, value in params.items()})}
              for params in CONFIGS]
    (pathlib.Path(__file__).resolve().parent / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
