"""Writes the archives of this folder and golden.json: what Python's tarfile reads of them, and how webdataset groups their files.

"files" are the regular files with their offsets, sizes and CRC-32; "samples" is what webdataset's group_by_keys makes of them: names,
parts, in its order. Run it with any Python that has webdataset; without, the samples are grouped by its rule, which stands below:
    python3 tests/golden/tar/make_golden.py
"""

import io
import itertools
import json
import re
import tarfile
import zlib
from pathlib import Path

HERE = Path(__file__).parent
LONG = "a-folder-with-a-long-name/" * 9 + "picture-of-a-cat-that-sleeps"  # above 100 bytes, and above ustar's 255
MIDDLE = "below/" * 20 + "one"  # in ustar: split between prefix and name


def file(name, data=b"", kind=tarfile.REGTYPE, **more):
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def samples(names):
    return [file(f"{name}.{part}", data) for number, name in enumerate(names)
            for part, data in [("jpg", bytes([number]) * (700 * number)), ("cls", str(number).encode()), ("json", b"{}")]]


ARCHIVES = {
    "ustar": (tarfile.USTAR_FORMAT, samples(["a", "b/c", MIDDLE])),
    "gnu": (tarfile.GNU_FORMAT, samples(["a", LONG, "d"])),
    "pax": (tarfile.PAX_FORMAT, samples(["a", LONG, "größe"]) + [file("z.jpg", b"z", pax_headers={"comment": "one\nmore"})]),
    "odd": (tarfile.GNU_FORMAT, [
        file("folder", kind=tarfile.DIRTYPE), file("folder/a.b.jpg", b"ab"), file("folder/a.CLS", b"1"), file("README", b"none"),
        file("x.jpg", kind=tarfile.SYMTYPE, linkname="folder/a.b.jpg"), file(".hidden.jpg", b"h"), file("b.jpg", b"b"), file("b.jpeg", b"c"),
        file("__info__/c.jpg", b"c"), file("__info__", b"d"), file("dots.in/name", b"e"), file("dots.in/name.jpg", b"f"),
        file("x.jpg", kind=tarfile.FIFOTYPE), file("empty.png"), file("empty.cls", b"0" * 512), file("block.png", b"0" * 1024)]),
    "empty": (tarfile.GNU_FORMAT, []),
}


def read(path):
    files = []
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isreg():
                data = archive.extractfile(member).read()
                files.append({"name": member.name, "offset": member.offset_data, "size": member.size, "crc32": f"{zlib.crc32(data):08x}"})
    return files


def grouped_by_rule(names):
    split = [match.groups() for name in names if not re.match(r"__[^/]*__($|/)", name)
             and (match := re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name))]
    return [[key, [part.lower() for _, part in parts]] for key, parts in itertools.groupby(split, lambda one: one[0])]


def grouped(path, names):
    try:
        from webdataset.tariterators import group_by_keys, tar_file_iterator
    except ImportError:
        return grouped_by_rule(names)
    with open(path, "rb") as stream:
        found = list(group_by_keys({**one, "__url__": str(path)} for one in tar_file_iterator(stream)))
    groups = [[one["__key__"], [key for key in one if not key.startswith("__")]] for one in found]
    assert groups == grouped_by_rule(names)
    return groups


def main():
    golden = {}
    for name, (kind, members) in ARCHIVES.items():
        path = HERE / f"{name}.tar"
        with tarfile.open(path, "w", format=kind, encoding="utf-8") as archive:
            for info, data in members:
                archive.addfile(info, io.BytesIO(data))
        path.write_bytes(cut_padding(path.read_bytes()))
        files = read(path)
        golden[name] = {"files": files, "samples": grouped(path, [one["name"] for one in files])}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in golden.items())
    (HERE / "golden.json").write_text(f"{{\n{lines}\n}}\n")


def cut_padding(data):
    """Up to the two blocks of zeros: a record of 10 KiB is much for a repository."""
    end = len(data.rstrip(b"\0"))
    return data[: (end + 511) // 512 * 512 + 1024]


if __name__ == "__main__":
    main()
