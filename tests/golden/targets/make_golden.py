"""Writes golden.json beside this file: where torchvision's v2 transforms move boxes, masks and keypoints.

Run it with the peers' Python: .venv/bin/python tests/golden/targets/make_golden.py
"""

import json
import sys
from pathlib import Path

import torch
from torchvision import tv_tensors

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "image")]
from cases import CLAMPED, EXACT, FILTERED, SAMPLED  # noqa: E402
from images import digest, slopes  # noqa: E402

IMAGE = slopes((3, 21, 34), 2)  # and upright, every other seed
SEEDS = range(3)
UPRIGHT = [[3, 4, 13, 11], [0, 0, 20, 20.5], [7.5, 1.25, 8.5, 19], [12, 12, 14, 14.75]]  # xyxy
TURNED = [[8, 9, 6, 4, 20], [10, 10, 3, 8, -75], [15.5, 6, 5, 5, 130]]  # cxcywhr
KEYPOINTS = [[[0, 0], [5, 7.5]], [[20, 20], [12.25, 3]], [[10, 10], [1, 19]], [[4, 4], [4.5, 4.5]]]
LABELS = [7, 3, 9, 1]


def masks_of(height, width):
    rows, columns = torch.arange(height).view(-1, 1), torch.arange(width)
    return torch.stack([(rows * 5 + columns * 3 + mask * 11) // 7 % 4 for mask in range(4)]).to(torch.uint8)


def sample_of(seed, format, clamping_mode):
    image = IMAGE if seed % 2 == 0 else IMAGE.permute(0, 2, 1).contiguous()
    size = tuple(image.shape[-2:])
    source, numbers = ("CXCYWHR", TURNED) if format in ("XYWHR", "CXCYWHR", "XYXYXYXY") else ("XYXY", UPRIGHT)
    from torchvision.transforms.v2.functional import convert_bounding_box_format as convert
    boxes = convert(torch.tensor(numbers, dtype=torch.float64), source, format)
    return {"image": tv_tensors.Image(image),
            "boxes": tv_tensors.BoundingBoxes(boxes, format=format, canvas_size=size, clamping_mode=clamping_mode),
            "masks": tv_tensors.Mask(masks_of(*size)),
            "keypoints": tv_tensors.KeyPoints(torch.tensor(KEYPOINTS, dtype=torch.float64), canvas_size=size),
            "labels": torch.tensor(LABELS)}


def numbers(tensor):
    return [round(number, 5) for number in tensor.flatten().tolist()]


def moved(transform, seed, format, clamping_mode=None):
    torch.manual_seed(seed)
    sample = sample_of(seed, format, clamping_mode)
    before = numbers(sample["boxes"])
    return before, transform(sample)


def cases(chains, sampled=False, filtered=False, clamping_mode=None):
    for chain, transform in chains.items():
        for seed in SEEDS:
            case = {"chain": chain, "seed": seed}
            upright_only = filtered or clamping_mode
            for format in ["XYXY", "XYWH", "CXCYWH"] + ([] if upright_only else ["XYWHR", "CXCYWHR", "XYXYXYXY"]):
                before, sample = moved(transform, seed, format, clamping_mode)
                case[format.lower()] = {"before": before, "out": {"tolerance": 1e-4, "numbers": numbers(sample["boxes"])}}
            masks = sample["masks"].contiguous()
            case["keypoints"] = {"tolerance": 1e-4, "numbers": numbers(sample["keypoints"])}
            case["shape"] = list(masks.shape)
            case["masks"] = masks[:1].numpy().tobytes().hex() if sampled else digest(masks)
            if filtered:
                case["labels"] = sample["labels"].tolist()
            yield case


def main():
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        sys.exit("the test of this golden is for PyTorch's AVX2 kernels, and this machine has others")
    torch.set_num_threads(1)
    golden = {"exact": cases(EXACT), "sampled": cases(SAMPLED, sampled=True), "filtered": cases(FILTERED, sampled=True, filtered=True),
              "clamped": cases(CLAMPED, sampled=True, clamping_mode="soft")}
    parts = ",\n".join(f'"{name}": [\n' + ",\n".join(" " + json.dumps(case) for case in all) + "\n]" for name, all in golden.items())
    FOLDER.joinpath("golden.json").write_text("{" + parts + "}\n")


if __name__ == "__main__":
    main()
