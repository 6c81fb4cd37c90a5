"""Writes golden.json beside this file: what torchvision's ImageFolder finds in a tree of empty files.

Run it with the peers' Python: .venv/bin/python tests/golden/image_folder/make_golden.py
"""

import json
import os
import tempfile
from pathlib import Path

from torchvision.datasets.folder import IMG_EXTENSIONS, DatasetFolder

FILES = ["dog/10.jpg", "dog/9.jpg", "dog/a.JPG", "dog/B.jpeg", "dog/b/1.png", "dog/b-c/1.png", "dog/b/c/0.png", "dog/b.webp",
         "Cat/x.ppm", "Cat/x.pgm", "Cat/x.bmp", "Cat/x.tif", "Cat/x.TIFF", "Cat/notes.txt", "Cat/jpg", "Cat/.hidden.png", "Cat/x.jpg.gz",
         "école/1.png", "zebra/deep/er/still/1.png", "zebra/deep/0.png", "readme.jpg", "\u65e5\u672c/1.jpg", ".thumbs/1.png", "a b/1 2.png"]
LINKS = {"dog/linked": "../zebra/deep", "mule": "dog/b", "Cat/y.png": "x.bmp", "Cat/broken.png": "nowhere"}


def main():
    with tempfile.TemporaryDirectory() as root:
        for file in FILES:
            path = Path(root, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        for name, target in LINKS.items():
            os.symlink(target, Path(root, name))
        found = DatasetFolder(root, loader=None, extensions=IMG_EXTENSIONS)
        samples = [os.path.relpath(path, root) for path, _ in found.samples]
    golden = {"files": FILES, "links": LINKS, "classes": found.classes, "samples": samples, "labels": found.targets}
    Path(__file__).with_name("golden.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
