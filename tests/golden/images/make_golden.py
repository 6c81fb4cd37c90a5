"""Writes golden.json beside this file: what Pillow's convert("RGB") makes of the files of input/.

Run it with the peers' Python: .venv/bin/python tests/golden/images/make_golden.py
"""

import json
import warnings
import zlib
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent


def facts(path):
    with Image.open(path) as image:
        pixels = image.convert("RGB")
    data = pixels.tobytes()
    return {"file": path.name, "width": pixels.width, "height": pixels.height, "crc32": f"{zlib.crc32(data):08x}", "start": list(data[:12])}


def main():
    warnings.simplefilter("ignore")  # transparent palettes
    lines = ",\n".join(" " + json.dumps(facts(path)) for path in sorted((HERE / "input").iterdir()))
    (HERE / "golden.json").write_text(f'{{"images": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
