"""Writes input/ beside this file: small JPEG files by Pillow's encoder, and PNG files of every kind of pixel by a writer of our own.

Run it once, with the peers' Python: .venv/bin/python tests/golden/images/make_input.py
The files stay as they are: another zlib or libjpeg would pack the same pixels into other bytes.
"""

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

INPUT = Path(__file__).parent / "input"
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # x, y, steps


def scene(height, width):
    """Slopes of all colours, a disc with a hard edge, noise below."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(7).integers(0, 60, (height, width, 3))
    rgb = np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + 2 * y) * 5 % 256], axis=2)
    rgb[(x - width * 0.4) ** 2 + (y - height * 0.5) ** 2 < (height / 4) ** 2] = (230, 20, 40)
    rgb[height * 2 // 3:] += noise[height * 2 // 3:] - 30
    return Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8))


def write_jpegs():
    image = scene(29, 37)

    def save(name, picture=image, quality=85, **options):
        picture.save(INPUT / f"{name}.jpg", quality=quality, **options)

    save("colour_444", subsampling=0)
    save("colour_422", subsampling=1)
    save("colour_420", subsampling=2)
    save("colour_420_q20", subsampling=2, quality=20)
    save("colour_444_q100", subsampling=0, quality=100)
    save("progressive_420", subsampling=2, progressive=True)
    save("progressive_444", subsampling=0, progressive=True, optimize=True)
    save("restarts_420", subsampling=2, restart_marker_blocks=1)
    save("stored_as_rgb", keep_rgb=True)
    save("grey", image.convert("L"))
    save("progressive_grey", image.convert("L"), progressive=True)
    save("cmyk", image.convert("CMYK"))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees, which convert("RGB") does not undo
    save("turned", exif=exif, subsampling=2)
    save("comment", comment=b"JPEG " * 40)
    for height, width in [(1, 1), (8, 8), (16, 17), (2, 90), (90, 3)]:
        save(f"colour_420_{width}x{height}", scene(height, width), subsampling=2)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(samples, bits):
    """[h, w, channels] of numbers -> a bytearray for each row."""
    rows = []
    for row in samples.reshape(samples.shape[0], -1):
        if bits == 16:
            rows.append(row.astype(">u2").tobytes())
        elif bits == 8:
            rows.append(row.astype(np.uint8).tobytes())
        else:
            flat = (row[:, None] >> np.arange(bits - 1, -1, -1)) & 1
            rows.append(np.packbits(flat.astype(np.uint8)).tobytes())
    return rows


def filtered(rows, pixel_bytes, first_filter):
    """Each row by another of the five filters."""
    out, above = b"", bytes(len(rows[0])) if rows else b""
    for number, row in enumerate(rows):
        kind = (number + first_filter) % 5
        line = bytearray()
        for i, value in enumerate(row):
            a = row[i - pixel_bytes] if i >= pixel_bytes else 0
            b, c = above[i], above[i - pixel_bytes] if i >= pixel_bytes else 0
            p = a + b - c
            nearest = min((a, b, c), key=lambda v: abs(p - v))
            line.append((value - [0, a, b, (a + b) // 2, nearest][kind]) % 256)
        out += bytes([kind]) + bytes(line)
        above = row
    return out


def write_png(name, samples, bits, colour, interlaced=False, before=b"", parts=1):
    height, width, channels = samples.shape
    pixel_bytes = max(1, channels * bits // 8)
    if interlaced:
        data = b"".join(filtered(packed_rows(samples[y::sy, x::sx], bits), pixel_bytes, i)
                        for i, (x, y, sx, sy) in enumerate(ADAM7) if samples[y::sy, x::sx].size)
    else:
        data = filtered(packed_rows(samples, bits), pixel_bytes, 0)
    data = zlib.compress(data, 9)
    step = -(-len(data) // parts)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before
    out += b"".join(chunk(b"IDAT", data[i:i + step]) for i in range(0, len(data), step)) + chunk(b"IEND", b"")
    (INPUT / f"{name}.png").write_bytes(out)


def write_pngs():
    rng = np.random.default_rng(11)
    kinds = {"grey": (0, 1, [1, 2, 4, 8, 16]), "colour": (2, 3, [8, 16]), "palette": (3, 1, [1, 2, 4, 8]),
             "grey_alpha": (4, 2, [8, 16]), "colour_alpha": (6, 4, [8, 16])}
    for kind, (colour, channels, depths) in kinds.items():
        for bits in depths:
            samples = rng.integers(0, 1 << bits, (11, 13, channels))
            if (kind, bits) == ("grey", 16):
                samples[::2] //= 256  # numbers of a byte, too
            entries = min(1 << bits, 200)
            before = chunk(b"PLTE", rng.integers(0, 256, entries * 3).astype(np.uint8).tobytes()) if kind == "palette" else b""
            for interlaced in (False, True):
                write_png(f"{kind}{bits}{'_interlaced' if interlaced else ''}", samples, bits, colour, interlaced, before)
    grey, rgb = rng.integers(0, 256, (5, 6, 1)), rng.integers(0, 256, (5, 6, 3))
    write_png("grey8_one_clear", grey, 8, 0, before=chunk(b"tRNS", struct.pack(">H", int(grey[0, 0, 0]))))
    write_png("colour8_one_clear", rgb, 8, 2, before=chunk(b"tRNS", struct.pack(">3H", *map(int, rgb[0, 0]))))
    write_png("palette8_clear", grey % 4, 8, 3, before=chunk(b"PLTE", bytes(range(12))) + chunk(b"tRNS", bytes([0, 128, 255])))
    write_png("palette4_short", grey % 16, 4, 3, before=chunk(b"PLTE", bytes(range(100, 109))))
    write_png("colour8_gamma", rgb, 8, 2, before=chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"sBIT", bytes([5, 6, 5])))
    write_png("colour8_parts", rgb, 8, 2, parts=7, before=chunk(b"tEXt", b"Title\0parts"))
    write_png("colour8_1x1", rgb[:1, :1], 8, 2, interlaced=True)
    write_png("colour8_3x1_interlaced", rgb[:1, :3], 8, 2, interlaced=True)


def main():
    INPUT.mkdir(exist_ok=True)
    write_jpegs()
    write_pngs()


if __name__ == "__main__":
    main()
