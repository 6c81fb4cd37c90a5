"""muster::formats' JPEG and PNG beside Pillow, byte for byte: every form that libjpeg's encoder writes, two photographs in many
qualities and modes, and damage. With MUSTER_IMAGES=FOLDER every image file below that folder, too."""

import io
import json
import os
import random
import subprocess
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def decode(program, tmp_path_factory):
    """Paths -> for each an array, or the text of what was refused."""

    def ask(paths, command="decode"):
        folder = tmp_path_factory.mktemp("rgb")
        done = subprocess.run([program("image_twin"), command, folder], input="".join(f"{path}\n" for path in paths), text=True,
                              capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(paths)
        for number, answer in enumerate(answers):
            if "error" in answer:
                yield answer["error"]
            else:
                yield np.fromfile(folder / f"{number}.rgb", np.uint8).reshape(answer["height"], answer["width"], 3)

    return ask


def pillow(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def assert_equal(paths, ours):
    for path, array in zip(paths, ours):
        assert not isinstance(array, str), array
        theirs = pillow(path)
        assert theirs.shape == array.shape, path
        apart = np.abs(theirs.astype(int) - array)
        assert apart.max() == 0, f"{path}: {np.count_nonzero(apart)} of {apart.size} bytes differ, at most by {apart.max()}"


def photographs():
    """Two photographs of 640 x 427 that scikit-learn carries."""
    folder = resources.files("sklearn") / "datasets" / "images"
    return [folder / "china.jpg", folder / "flower.jpg"]


def test_every_form_of_jpeg(decode, program, tmp_path):
    subprocess.run([program("image_twin"), "make", tmp_path], check=True)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) > 80
    # Between the blocks of a progressive file that lacks scans libjpeg makes up what is missing; Pillow's is of a later version.
    partial = [path for path in paths if "averages alone" in path.name]
    assert len(partial) == 4
    for path, ours in zip(partial, decode(partial)):
        assert np.abs(pillow(path).astype(int) - ours).max() <= 20, path
    whole = [path for path in paths if path not in partial]
    assert_equal(whole, decode(whole))


def test_photographs_as_jpeg(decode, tmp_path):
    paths = []
    for source in photographs():
        with Image.open(io.BytesIO(source.read_bytes())) as image:
            image.load()
        draw = random.Random(1)
        for number in range(40):
            left, top = draw.randrange(300), draw.randrange(200)
            part = image.crop((left, top, left + draw.randrange(1, 340), top + draw.randrange(1, 220)))
            part = part.convert(draw.choice(["RGB", "RGB", "RGB", "L", "CMYK"]))
            path = tmp_path / f"{source.stem}{number}.jpg"
            part.save(path, quality=draw.choice([5, 30, 75, 90, 95, 100]), subsampling=draw.randrange(3),
                      progressive=draw.random() < 0.3, optimize=draw.random() < 0.3, restart_marker_blocks=draw.choice([0, 0, 1, 7]))
            paths.append(path)
    assert_equal(paths, decode(paths))


def test_photographs_as_png(decode, tmp_path):
    paths = []
    for source in photographs():
        with Image.open(io.BytesIO(source.read_bytes())) as image:
            image.load()
        small = image.resize((101, 67))
        for mode in ["1", "L", "LA", "RGB", "RGBA", "P", "I;16"]:
            if mode == "P":
                picture = small.quantize(100)
            elif mode == "I;16":
                picture = Image.fromarray((np.asarray(small.convert("L")).astype(np.uint16) - 100) * 3)
            else:
                picture = small.convert(mode)
            path = tmp_path / f"{source.stem} {mode.replace(';', '')}.png"
            picture.save(path, optimize=mode == "RGB")
            paths.append(path)
        bits = tmp_path / f"{source.stem} 4 colours.png"
        small.quantize(4).save(bits, bits=2)
        paths.append(bits)
    assert_equal(paths, decode(paths))


def test_truncated_files_are_refused_as_pillow_refuses_them(decode, tmp_path):
    files = []
    with Image.open(io.BytesIO(photographs()[0].read_bytes())) as image:
        image = image.resize((60, 40))
    for name, options in [("a.jpg", {}), ("b.jpg", {"progressive": True}), ("c.png", {})]:
        whole = io.BytesIO()
        image.save(whole, "PNG" if name.endswith("png") else "JPEG", **options)
        data = whole_png = whole.getvalue()  # the last one's
        for length in range(1, len(data), 7):
            path = tmp_path / f"{length} {name}"
            path.write_bytes(data[:length])
            files.append(path)
    refused = 0
    for path, ours in zip(files, decode(files)):
        try:
            theirs = pillow(path)
        except Exception:
            assert isinstance(ours, str), f"{path}: Pillow refuses it"
            refused += 1
        else:
            if isinstance(ours, str):  # libpng wants the checksums behind the pixels, which Pillow does not look at
                assert path.suffix == ".png" and len(whole_png) - path.stat().st_size <= 20, f"{path}: Pillow reads it, and we: {ours}"
            else:
                assert (theirs == ours).all(), path
    assert refused > len(files) * 9 // 10


def test_damaged_jpeg_data_are_kept_as_pillow_keeps_them(decode, tmp_path):
    draw = random.Random(3)
    with Image.open(io.BytesIO(photographs()[1].read_bytes())) as image:
        image = image.resize((90, 70))
    paths = []
    for number in range(150):
        whole = io.BytesIO()
        image.save(whole, "JPEG", quality=80, subsampling=number % 3, progressive=number % 5 == 0)
        data = bytearray(whole.getvalue())
        start = data.index(b"\xff\xda") + 20
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(start, len(data) - 2)] = draw.randrange(255)
        path = tmp_path / f"{number}.jpg"
        path.write_bytes(data)
        paths.append(path)
    kept = 0
    for path, ours, strict in zip(paths, list(decode(paths, "keep")), list(decode(paths))):
        try:
            theirs = pillow(path)
        except OSError:
            assert isinstance(ours, str), path
            continue
        assert not isinstance(ours, str), f"{path}: {ours}"
        assert (theirs == ours).all(), f"{path}: {np.count_nonzero(theirs != ours)} bytes differ"
        if isinstance(strict, str):
            kept += 1
            assert "libjpeg finds no fault" in strict, strict
        else:
            assert (strict == ours).all(), path
    assert kept > 8


FOLDERS = [resources.files("sklearn") / "datasets" / "images", *map(Path, filter(None, os.environ.get("MUSTER_IMAGES", "").split(":")))]


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_images_as_they_are(decode, folder):
    paths = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in {".jpg", ".jpeg", ".png"})
    equal = 0
    for path, ours in zip(paths, decode(paths)):
        try:
            theirs = pillow(path)
        except Exception as error:
            assert isinstance(ours, str), f"{path}: {error}"
            continue
        assert not isinstance(ours, str), ours
        assert theirs.shape == ours.shape and (theirs == ours).all(), path
        equal += 1
    assert equal > 0
