#!/usr/bin/env python3
"""Writes the tables of muster/text/unicode/peer_tables.cpp: where PyPI's `tokenizers` has other properties than utf8proc.

    .venv/bin/python scripts/make_peer_tables.py     with tokenizers 0.23 (tests/parity/requirements.txt) and Debian's libutf8proc2

Every code point is shown to `tokenizers`; what it does with it tells the property that it has for it.
"""
import ctypes
import subprocess
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

UTF8PROC = ctypes.CDLL("libutf8proc.so.2")
UTF8PROC.utf8proc_category_string.restype = ctypes.c_char_p
ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORY = {c: UTF8PROC.utf8proc_category_string(c).decode() for c in ALL}


def bert(**steps):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**(off | steps))


def removed_by(normalizer):
    return lambda c: normalizer.normalize_str(chr(c)) == ""


def apart_by(splitter):
    return lambda c: len(splitter.pre_tokenize_str("a" + chr(c) + "a")) > 1


def matched_by(pattern):
    splitter = pre_tokenizers.Split(Regex(pattern), "isolated")
    return lambda c: len(splitter.pre_tokenize_str("!" + chr(c) + "!")) > 1


# Name: what tokenizers has, what the categories of utf8proc say, and which code points may differ.
UNKNOWN = [c for c in ALL if CATEGORY[c] == "Cn" and c < 0x32400]
MAYBE_MARKS = [c for c in ALL if CATEGORY[c] != "Cn" and CATEGORY[c] != "Co"]
TABLES = {
    "BertPunctuation": (apart_by(pre_tokenizers.Punctuation()), lambda k: k[0] == "P",
                        [c for c in MAYBE_MARKS if CATEGORY[c][0] in "PSM" and c > 0x7F]),
    "BertNonspacing": (removed_by(bert(strip_accents=True)), lambda k: k == "Mn", [c for c in MAYBE_MARKS if not 0xAC00 <= c <= 0xD7A3]),
    "BertControl": (removed_by(bert(clean_text=True)), lambda k: k in ("Cc", "Cf", "Co", "Cs"),
                    [c for c in ALL if c not in (0, 9, 10, 13, 0xFFFD)]),
    "PeerMark": (removed_by(normalizers.StripAccents()), lambda k: k[0] == "M", MAYBE_MARKS),
    "PeerLetter": (matched_by(r"\p{L}"), lambda k: k[0] == "L", UNKNOWN),
    "PeerNumber": (matched_by(r"\p{N}"), lambda k: k[0] == "N", UNKNOWN),
}


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, theirs, ours, candidates):
    found = ranges([c for c in candidates if theirs(c) != ours(CATEGORY[c])])
    rows = ", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in found)
    return f"constexpr PeerRange k{name}[] = {{{rows}}};\n"


def main():
    path = Path(__file__).resolve().parents[1] / "muster/text/unicode/peer_tables.cpp"
    tables = "".join(table(name, *parts) for name, parts in TABLES.items())
    before, rest = path.read_text().split("constexpr PeerRange", 1)
    path.write_text(before + tables + rest[rest.index("\ntemplate"):])
    subprocess.run(["clang-format", "-i", path], check=True)


main()
