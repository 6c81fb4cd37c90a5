#!/usr/bin/env python3
"""Writes muster/text/unicode/peer_tables.cpp: where PyPI's `tokenizers` has other properties than utf8proc.

    .venv/bin/python scripts/make_peer_tables.py     with tokenizers 0.23 (tests/parity/requirements.txt) and Debian's libutf8proc2

Every code point is shown to `tokenizers`; what it does with it tells the property that it has for it.
"""
import ctypes
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


HEAD = """// Written by scripts/make_peer_tables.py: code points of which `tokenizers` 0.23 says the opposite of utf8proc 2.8.
#include "muster/text/unicode/peer_tables.h"

#include <algorithm>
#include <iterator>

#include "muster/text/unicode/properties.h"

namespace muster::text {
namespace {

struct PeerRange {
  char32_t first, last;
};

"""
TAIL = """
template <size_t n>
bool differs(const PeerRange (&ranges)[n], char32_t c) {
  const auto* range = std::lower_bound(std::begin(ranges), std::end(ranges), c,
                                       [](const PeerRange& r, char32_t x) { return r.last < x; });
  return range != std::end(ranges) && range->first <= c;
}

}  // namespace

bool is_bert_punctuation(char32_t c) { return is_punctuation(c) != differs(kBertPunctuation, c); }

bool is_bert_nonspacing_mark(char32_t c) {
  return is_nonspacing_mark(c) != differs(kBertNonspacing, c);
}

bool is_bert_control(char32_t c) {
  return (is_other(c) && !is_unassigned(c)) != differs(kBertControl, c);
}

bool is_peer_mark(char32_t c) { return is_mark(c) != differs(kPeerMark, c); }

bool is_peer_letter(char32_t c) { return is_letter(c) != differs(kPeerLetter, c); }

bool is_peer_number(char32_t c) { return is_number(c) != differs(kPeerNumber, c); }

}  // namespace muster::text
"""


def main():
    text = HEAD + "".join(table(name, *parts) for name, parts in TABLES.items()) + TAIL
    (Path(__file__).resolve().parents[1] / "muster/text/unicode/peer_tables.cpp").write_text(text)


main()
