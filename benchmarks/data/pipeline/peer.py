"""The Python sides of benchmarks/data/pipeline: photographs, random crop to 224, flip, jitter, normalised, in batches of 64.

    .venv/bin/python benchmarks/data/pipeline/peer.py SIDE FOLDER WORKERS EPOCHS [jitter]

Prints one JSON object: images and seconds from the first batch to the end of the last, seconds to the first batch (from the making of the
loader on: imports are not in it), processor seconds of all processes, peak MiB of this one, and the mean of the batches, which tells whether
the sides see alike pictures.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "peers"))
from process_status import status_mib  # noqa: E402

SIDE, BATCH = 224, 64
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def processor_s():
    return sum(getattr(resource.getrusage(who), field) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
               for field in ("ru_utime", "ru_stime"))


class Tally:
    """What a consumer sees, batch by batch."""

    def __init__(self):
        self.begin, self.processor = time.monotonic(), processor_s()
        self.batches = self.images = self.sum = 0

    def consume(self, images):
        if self.batches == 0:
            self.first = time.monotonic()
        else:
            self.images += len(images)
        self.batches += 1
        self.sum += float(images.mean())
        self.last = time.monotonic()

    def json(self):
        return json.dumps({"images": self.images, "seconds": self.last - self.first, "first_batch": self.first - self.begin,
                           "processor": processor_s() - self.processor, "peak_mib": status_mib("VmHWM"), "mean": self.sum / self.batches})


def torchvision_steps(kind, jitter):
    """From a file's name to a tensor; `kind` is what the steps change, tensors or Pillow's images."""
    import torch
    from torchvision.transforms import v2
    steps = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
    if jitter:
        steps.append(v2.ColorJitter(0.4, 0.4, 0.4))
    if kind == "pillow":
        steps.append(v2.ToImage())
    return v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)])


class AlbumentationsDataset:
    def __init__(self, folder, jitter):
        import albumentations as A
        from albumentations.pytorch import ToTensorV2
        from torchvision.datasets import ImageFolder
        self.files = ImageFolder(folder).samples
        steps = [A.RandomResizedCrop((SIDE, SIDE)), A.HorizontalFlip()]
        if jitter:
            steps.append(A.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (0, 0), p=1))
        self.steps = A.Compose([*steps, A.Normalize(MEAN, DEVIATION), ToTensorV2()])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        import cv2
        file, label = self.files[index]
        return self.steps(image=cv2.cvtColor(cv2.imread(file), cv2.COLOR_BGR2RGB))["image"], label


def one_thread(_worker):
    import torch
    torch.set_num_threads(1)
    try:
        import cv2
        cv2.setNumThreads(0)
    except ImportError:
        pass


def by_dataloader(kind, folder, workers, epochs, jitter):
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.io import ImageReadMode, decode_image
    loading = kind.removesuffix("_spawn")
    tally = Tally()
    if loading == "albumentations":
        dataset = AlbumentationsDataset(folder, jitter)
    elif loading == "tensor":
        dataset = ImageFolder(folder, torchvision_steps(loading, jitter), loader=DecodedByTorchvision(decode_image, ImageReadMode.RGB))
    else:
        dataset = ImageFolder(folder, torchvision_steps(loading, jitter))
    loader = DataLoader(dataset, BATCH, shuffle=True, drop_last=True, num_workers=workers, worker_init_fn=one_thread,
                        persistent_workers=workers > 0,
                        multiprocessing_context=None if workers == 0 else "spawn" if kind.endswith("_spawn") else "fork")
    for _ in range(epochs):
        for images, _ in loader:
            tally.consume(images)
    if workers > 0:
        loader._iterator._shutdown_workers()  # so that their processor time is counted
    return tally


class DecodedByTorchvision:
    def __init__(self, decode, mode):
        self.decode, self.mode = decode, mode

    def __call__(self, path):
        return self.decode(path, self.mode)


def by_spdl(folder, workers, epochs, jitter):
    """Its pipeline of threads, with torchvision's decoder and tensor steps. (Its own decoder needs FFmpeg's libraries.)"""
    import random

    import torch
    from spdl.pipeline import PipelineBuilder
    from torchvision.datasets import ImageFolder
    from torchvision.io import ImageReadMode, decode_image
    steps = torchvision_steps("tensor", jitter)
    tally = Tally()
    files = [path for path, _ in ImageFolder(folder).samples]

    def load(path):
        return steps(decode_image(path, ImageReadMode.RGB))

    for epoch in range(epochs):
        order = random.Random(epoch).sample(files, len(files))
        pipeline = (PipelineBuilder().add_source(order).pipe(load, concurrency=max(1, workers)).aggregate(BATCH, drop_last=True)
                    .pipe(torch.stack).add_sink(2).build(num_threads=max(1, workers)))
        with pipeline.auto_stop():
            for images in pipeline:
                tally.consume(images)
    return tally


def by_turboloader(folder, workers, epochs, jitter):
    """Its fused pass over a tar of the same files, which knows no jitter."""
    import torch
    import turboloader
    if jitter:
        sys.exit("turboloader: its fused pass has no jitter")
    tally = Tally()
    loader = turboloader.DataLoader(f"{folder}.tar", batch_size=BATCH, image_size=SIDE, num_workers=max(1, workers), output_format="pytorch",
                                    transform=turboloader.ImageNetNormalize(), shuffle=True, train_aug=True, antialias=True, drop_last=True)
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        for images, _ in loader:
            tally.consume(torch.from_numpy(images))
    loader.close()
    return tally


def main():
    side, folder, workers, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    jitter = sys.argv[5:] == ["jitter"]
    import torch
    torch.set_num_threads(1)
    if side == "spdl":
        tally = by_spdl(folder, workers, epochs, jitter)
    elif side == "turboloader":
        tally = by_turboloader(folder, workers, epochs, jitter)
    else:
        one_thread(0)
        tally = by_dataloader(side, folder, workers, epochs, jitter)
    print(tally.json(), flush=True)
    os._exit(0)  # threads of a peer's pool may not end


if __name__ == "__main__":
    main()
