#!/usr/bin/env python3
"""The C++ on the guides is the code of compiled files.

Each ```cpp block of docs/*.md and README.md follows a line that ends in `[name](../path):`, or one that is
`<!-- from path -->`, and is found in that file line by line, whatever the indentation; a line `…` stands for anything between.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(\.\./([^)]+)\):\n+$")
COMMENT = re.compile(r"<!-- from (\S+) -->\n$")


def plain(text):
    return "".join(line.lstrip() for line in text.splitlines(keepends=True))


def faults(page):
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        named = LINK.search(text[:block.start()]) or COMMENT.search(text[:block.start()])
        if not named:
            yield f"{page.name}:{line}: no `[file](../path):` and no `<!-- from path -->` before the code"
            continue
        source, at = plain((ROOT / named[1]).read_text()), 0
        for part in plain(block[1]).split("…\n"):
            at = source.find(part, at)
            if at < 0:
                yield f"{page.name}:{line}: not in {named[1]}:\n{part}"
                break
            at += len(part)


def main():
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    found = [fault for page in pages for fault in faults(page)]
    blocks = sum(len(BLOCK.findall(page.read_text())) for page in pages)
    if found or blocks == 0:
        sys.exit("\n".join(found) or "no code was found")
    print(f"{blocks} blocks on {len(pages)} pages")


main()
