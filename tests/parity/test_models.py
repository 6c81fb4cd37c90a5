"""State dicts of torchvision's own models, saved by PyPI's safetensors, loaded and scored by C++: logits agree to 1e-5.

Weights are random, and BatchNorm's statistics and scales are moved away from 0 and 1 as training moves them, so that a
statistic which is not loaded shows. The loss of precision of a deep network is its own: logits are compared relative to
the largest one where that is above 1.
"""

import json
import subprocess

import pytest
import torch
import torchvision.models as peers
from safetensors.torch import load_file, save_file

MODELS = [
    ("alexnet", {}, peers.alexnet),
    ("vgg11", {}, peers.vgg11),
    ("vgg11", {"batch_norm": "true"}, peers.vgg11_bn),
    ("vgg16", {}, peers.vgg16),
    ("vgg16", {"batch_norm": "true"}, peers.vgg16_bn),
    ("resnet18", {}, peers.resnet18),
    ("resnet34", {}, peers.resnet34),
    ("resnet50", {}, peers.resnet50),
]


def perturb(model, generator):
    """As training leaves BatchNorm: statistics of the inputs that it sees, plus noise; scales around 1."""
    with torch.no_grad():
        model.train()(torch.randn(4, 3, 96, 96, generator=generator))
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                shape = module.weight.shape
                module.running_mean += 0.1 * torch.randn(shape, generator=generator)
                module.running_var *= 0.8 + 0.4 * torch.rand(shape, generator=generator)
                module.weight.copy_(0.8 + 0.4 * torch.rand(shape, generator=generator))
                module.bias.copy_(0.1 * torch.randn(shape, generator=generator))


CASES = [(*model, True) for model in MODELS]
# Without num_batches_tracked, where a model has it, as PyTorch saved before 0.4.1.
CASES += [(*model, False) for model in MODELS if model[0].startswith("resnet") or model[1]]


@pytest.mark.parametrize("name, params, constructor, tracked", CASES, ids=lambda value: getattr(value, "__name__", None))
def test_a_torchvision_state_dict_gives_the_same_logits(name, params, constructor, tracked, program, run, tmp_path):
    torch.manual_seed(17)
    generator = torch.Generator().manual_seed(23)
    model = constructor(num_classes=1000 if tracked else 7)
    perturb(model, generator)
    model.eval()
    state = {key: value for key, value in model.state_dict().items() if tracked or "num_batches_tracked" not in key}
    save_file(state, tmp_path / "weights.safetensors")
    specs, expected = [], []
    for size in [(224, 224), (96, 80)]:
        images = torch.randn(2, 3, *size, generator=generator)
        label = f"{size[0]}x{size[1]}"
        save_file({"images": images}, tmp_path / f"images{label}.safetensors")
        with torch.no_grad():
            expected.append(model(images))
        specs.append({"model": name, "params": params, "classes": expected[-1].shape[1], "weights": "weights.safetensors",
                      "images": f"images{label}.safetensors", "scores": f"scores{label}.safetensors"})
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    run(program("model_twin"), "specs.json")
    for spec, theirs in zip(specs, expected, strict=True):
        ours = load_file(tmp_path / spec["scores"])["scores"]
        assert theirs.std() > 1e-3, "logits that say nothing"
        assert (ours - theirs).abs().max() <= 1e-5 * max(1, theirs.abs().max()), spec


@pytest.mark.parametrize("name, constructor", [("resnet18", peers.resnet18), ("resnet50", peers.resnet50)])
def test_a_state_dict_of_another_model_is_refused_by_name(name, constructor, program, tmp_path):
    model = constructor(num_classes=7)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    save_file({"images": torch.zeros(1, 3, 64, 64)}, tmp_path / "images.safetensors")
    spec = {"model": "resnet34", "params": {}, "classes": 7, "weights": "weights.safetensors",
            "images": "images.safetensors", "scores": "scores.safetensors"}
    (tmp_path / "specs.json").write_text(json.dumps([spec]))
    done = subprocess.run([program("model_twin"), "specs.json"], cwd=tmp_path, text=True, capture_output=True, timeout=120)
    assert done.returncode == 2 and "layer1." in done.stderr, done.stderr
    assert not (tmp_path / "scores.safetensors").exists()
