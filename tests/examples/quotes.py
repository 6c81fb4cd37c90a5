#!/usr/bin/env python3
"""The code on docs/add-a-*.md and docs/trial-protocol.md is the code of compiled files.

Each ```cpp block follows a line that ends in `[name](../path):` and is found in that file word for word; a line `…` stands
for anything between.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
SOURCE = re.compile(r"\]\(\.\./([^)]+)\):\n+$")


def faults(page):
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        named = SOURCE.search(text[:block.start()])
        if not named:
            yield f"{page.name}:{line}: no `[file](../path):` before the code"
            continue
        source, at = (ROOT / named[1]).read_text(), 0
        for part in block[1].split("…\n"):
            at = source.find(part, at)
            if at < 0:
                yield f"{page.name}:{line}: not in {named[1]}:\n{part}"
                break
            at += len(part)


def main():
    pages = sorted((ROOT / "docs").glob("add-a-*.md")) + [ROOT / "docs/trial-protocol.md"]
    found = [fault for page in pages for fault in faults(page)]
    blocks = sum(len(BLOCK.findall(page.read_text())) for page in pages)
    if found or blocks == 0:
        sys.exit("\n".join(found) or "no code was found")
    print(f"{blocks} blocks on {len(pages)} pages")


main()
