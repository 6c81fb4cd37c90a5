"""The Python side of benchmarks/peers/text: what text_speed.cpp does, by PyPI's `tokenizers`, or by torchtext's rule in Python.

    .venv/bin/python benchmarks/peers/text/peer.py TEXTS [TOKENIZER]
"""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "golden" / "text"))
from torchtext_words import basic_english  # noqa: E402

os.environ["TOKENIZERS_PARALLELISM"] = "false"


def seconds(work):
    """Processor time of the faster of two passes."""
    best = 1e300
    for _ in range(2):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def build_vocab(lines):
    counter = Counter()
    for line in lines:
        counter.update(basic_english(line))
    words = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return ["<unk>", *(word for word, count in words if count >= 2)]


def measure_words(lines):
    out = {"words": seconds(lambda: [basic_english(line) for line in lines]), "vocabulary": seconds(lambda: build_vocab(lines))}
    return out | {"sum": sum(len(basic_english(line)) for line in lines)}


def measure_tokens(lines, file):
    from tokenizers import Tokenizer
    begin = time.process_time()
    tokenizer = Tokenizer.from_file(file)
    out = {"load": time.process_time() - begin}
    out["encode"] = seconds(lambda: [tokenizer.encode(line).ids for line in lines])
    out["ids"] = seconds(lambda: tokenizer.encode_batch_fast(lines))
    ids = [tokenizer.encode(line).ids for line in lines]
    out["decode"] = seconds(lambda: [tokenizer.decode(some) for some in ids])
    total = 0
    for some in ids:
        for one in some:
            total = (total * 31 + one) % 1_000_000_007
    return out | {"sum": total}


def main():
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")
    print(json.dumps(measure_tokens(lines, sys.argv[2]) if len(sys.argv) > 2 else measure_words(lines)))


main()
