"""The Python side of benchmarks/data/decode/run.py: what decode_speed.cpp does, by Pillow.

    .venv/bin/python benchmarks/data/decode/peer.py FILE COUNT
"""

import io
import json
import sys
import time
import zlib
from pathlib import Path

from PIL import Image

SIDE = 224


def measure(decode, count):
    decode()
    start = time.process_time()
    for _ in range(count):
        decode()
    return (time.process_time() - start) / count


def main():
    data, count = Path(sys.argv[1]).read_bytes(), int(sys.argv[2])

    def whole():
        return Image.open(io.BytesIO(data)).convert("RGB")

    def region():
        image = whole()
        left, top = (image.width - SIDE) // 2, (image.height - SIDE) // 2
        return image.crop((left, top, left + SIDE, top + SIDE))

    out = {"whole": measure(whole, count), "region": measure(region, count)}
    print(json.dumps(out | {"sum": zlib.crc32(whole().tobytes()) ^ zlib.crc32(region().tobytes())}))


main()
