"""torchtext's basic_english as it is published: for the golden beside this file, tests/parity and benchmarks/peers/text."""

import re

# torchtext 0.18, torchtext.data.utils.
PATTERNS = [(re.compile(pattern), by) for pattern, by in [
    (r"\'", " '  "), (r"\"", ""), (r"\.", " . "), (r"<br \/>", " "), (r",", " , "), (r"\(", " ( "), (r"\)", " ) "), (r"\!", " ! "),
    (r"\?", " ? "), (r"\;", " "), (r"\:", " "), (r"\s+", " ")]]


def basic_english(line):
    line = line.lower()
    for pattern, by in PATTERNS:
        line = pattern.sub(by, line)
    return line.split()
