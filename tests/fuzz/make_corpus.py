#!/usr/bin/env python3
"""Writes the binary seeds of tests/fuzz/corpus (the texts in it were written by hand).

    tests/fuzz/make_corpus.py
"""
import gzip
import io
import json
import pathlib
import struct
import tarfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
IMAGES = CORPUS.parents[1] / "golden" / "images" / "input"


def safetensors(header, data=b"", pad=b""):
    text = json.dumps(header, separators=(",", ":")).encode() if isinstance(header, dict) else header
    text += pad
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def idx(kind, dims, data):
    return bytes([0, 0, kind, len(dims)]) + b"".join(struct.pack(">I", dim) for dim in dims) + data


def tar(kind, *members):
    """Up to the zeros at its end."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for name, data, *more in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in more[0].items() if more else []:
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue().rstrip(b"\0") + bytes(1024 + -len(out.getvalue().rstrip(b"\0")) % 512)


def main():
    files = {
        "safetensors/empty": safetensors({}),
        "safetensors/metadata": safetensors({"__metadata__": {"format": "pt", "": "\u00e9\n"}}, pad=b"    "),
        "safetensors/two": safetensors({"b": tensor("F32", [1, 2], 0, 8), "a": tensor("U8", [3], 8, 11)}, bytes(11), b" " * 5),
        "safetensors/scalar": safetensors({"s": tensor("I64", [], 0, 8), "e": tensor("F16", [0, 4], 8, 8)}, bytes(8)),
        "safetensors/packed": safetensors({"f4": tensor("F4", [2, 2], 0, 2), "f6": tensor("F6_E3M2", [4], 2, 5),
                                           "f8": tensor("F8_E4M3FNUZ", [1], 5, 6)}, bytes(6)),
        "safetensors/overflow": safetensors({"w": tensor("F64", [1 << 32, 1 << 32], 0, 0)}),
        "safetensors/gap": safetensors({"w": tensor("U8", [1], 1, 2)}, bytes(2)),
        "safetensors/long": struct.pack("<Q", 1 << 63) + b"{}",
        "idx/bytes": idx(8, [2, 3, 4], bytes(range(24))),
        "idx/none": idx(8, [0, 28], b""),
        "idx/double": idx(14, [2], bytes(16)),
        "idx/huge": idx(14, [0xFFFFFFFF] * 4, b""),
        "idx/gzip": gzip.compress(idx(8, [5, 5], bytes(25)), mtime=0),
        "idx/stored": gzip.compress(idx(9, [6], bytes(6)), compresslevel=0, mtime=0),
        "cifar/ten": bytes([0, 3, 9]),
        "cifar/ten_whole": bytes([0, 7]) + bytes(range(256)) * 12,
        "cifar/ten_no_label": bytes([0, 10]),
        "cifar/hundred": bytes([1, 19, 99, 0, 0]),
        "cifar/hundred_whole": bytes([1, 4, 77]) + bytes(range(256)) * 12,
        "cifar/hundred_no_label": bytes([1, 20, 99]),
        "tar/ustar": tar(tarfile.USTAR_FORMAT, ("a.jpg", b"a"), ("a.cls", b"1")),
        "tar/gnu": tar(tarfile.GNU_FORMAT, ("b/" * 60 + "a.json", b'{"a": "cat"}')),
        "tar/pax": tar(tarfile.PAX_FORMAT, ("b/" * 130 + "a.json", b'{"a": 5}', {"pax_headers": {"size": "8", "comment": "a=b"}})),
        "tar/sparse": tar(tarfile.PAX_FORMAT, ("a.jpg", b"a", {"pax_headers": {"GNU.sparse.major": "1"}})),
        "tar/links": tar(tarfile.GNU_FORMAT, ("a.jpg", b"", {"type": tarfile.LNKTYPE, "linkname": "b" * 120}), ("f", b"", {"type": tarfile.DIRTYPE})),
        "tar/cut": tar(tarfile.USTAR_FORMAT, ("a.jpg", b"a" * 600))[:900],
        "tar/two": tar(tarfile.USTAR_FORMAT, ("a", b"")) + tar(tarfile.USTAR_FORMAT, ("b", b"")),
        "tar/gzip": gzip.compress(b"a", mtime=0),
        "idx/members": gzip.compress(idx(8, [4], b""), mtime=0) + gzip.compress(b"abcd", mtime=0),
    }
    for name in ["colour_420_8x8", "colour_420_17x16", "colour_422", "grey", "progressive_420", "progressive_grey", "restarts_420", "cmyk",
                 "stored_as_rgb"]:
        files[f"jpeg/{name}"] = (IMAGES / f"{name}.jpg").read_bytes()
    for name in ["grey1", "grey2_interlaced", "grey16", "grey_alpha8", "grey_alpha16_interlaced", "colour8_parts", "colour8_3x1_interlaced",
                 "colour16", "colour_alpha8", "colour_alpha16", "palette2", "palette4_short", "palette8_interlaced", "colour8_one_clear"]:
        files[f"png/{name}"] = (IMAGES / f"{name}.png").read_bytes()
    for name, data in files.items():
        (CORPUS / name).parent.mkdir(parents=True, exist_ok=True)
        (CORPUS / name).write_bytes(data)


main()
