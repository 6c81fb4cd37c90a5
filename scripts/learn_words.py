#!/usr/bin/env python3
"""Learns which words the messages of an error have, for muster/diagnose/log/words.txt:

    pip install scikit-learn; scripts/learn_words.py [PART …]      of the corpus, all if none is named

From the labelled messages of tests/diagnose/corpus, its logs of healthy runs and of ordinary troubles that no row is about (healthy,
ordinary; what lies in harmless is kept for the test), and the patterns of docs/errors.md (`muster doctor --catalogue > docs/errors.md`
first): a multinomial logistic regression over the words and pairs of neighbours that three texts or more
have, each by its inverse document frequency, of length 1 in all. Small weights are left out. The words are those of
muster/diagnose/log/message_words.cpp.
"""
import collections
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests/diagnose/corpus"
LEAST_TEXTS = 3
LEAST_WEIGHT = 0.6
STRENGTH = 30.0  # C of the regression
PATTERN_WEIGHT = 0.3  # of a pattern, against 1 of a message
LINE_WEIGHT = 0.3  # of a line by itself, of a log without a failure in the corpus
HARMLESS_WEIGHT = 0.6  # of one in healthy and ordinary
NUMBERS = {"9", "11", "15", "134", "137", "139", "143"}  # what they say of an end is worth a word
STOP = set("the an of to in is it and for on at by with this that be was are".split())
WORD = re.compile(rb"[A-Za-z\x80-\xff]+|[0-9]+")
CAMEL = re.compile(rb"(?<=[a-z])(?=[A-Z])")


def words(text):
    """The words of a text and the pairs of neighbours on a line, each once."""
    found = set()
    for line in text.encode().split(b"\n"):
        before = None
        for chunk in re.split(rb"[ \t\r]+", line):
            chunk = re.split(rb"[/\\]", chunk)[-1]
            for run in WORD.findall(chunk):
                for part in CAMEL.split(run):
                    word = part.lower().decode(errors="surrogateescape")
                    if part[:1].isdigit():
                        if word not in NUMBERS:
                            continue
                    elif not 2 <= len(part) <= 32 or word in STOP:
                        continue
                    elif len(part) > 4 and word.endswith("s") and not word.endswith("ss"):
                        word = word[:-1]
                    found.add(word)
                    if before:
                        found.add(before + "_" + word)
                    before = word
    return found


def messages(part):
    """(row, text) of a part of the corpus."""
    found = []
    for line in (CORPUS / f"{part}.txt").read_text().splitlines():
        if line.startswith("    "):
            found[-1][1] += line[4:] + "\n"
        elif line.startswith("https://"):
            found.append(["", ""])
        elif line and line[0] != "#":
            found[-1][0] = line
    return [tuple(one) for one in found]


def patterns(page):
    """(row, text) of what the rows are recognised by, as docs/errors.md says it."""
    row = None
    for line in page.splitlines():
        if line.startswith("### "):
            row = line[4:].strip()
        elif row and re.match(r"\d+\. ", line):
            yield row, line.split(" ", 1)[1]
        elif row and line.startswith(("Said as ", "Guessed from ")):
            for text in re.findall(r"`+ ?(.+?) ?`+(?=[,.]|$)", line):
                yield row, text.replace("…", " ")


def texts(parts, page):
    """(row, text, weight) of all that is learned from."""
    found = [(row, text, PATTERN_WEIGHT) for row, text in patterns(page)]
    for part in parts:
        found += [(row, text, 1.0) for row, text in messages(part)]
        # Of a log without a failure each line is harmless by itself: the reader passes over some.
        found += [(row, line, LINE_WEIGHT) for row, text in messages(part) if row == "none" for line in text.splitlines()]
    for folder in ("healthy", "ordinary"):
        for file in sorted((CORPUS / folder).glob("*.txt")):
            lines = file.read_text().splitlines()
            found += [("none", "\n".join(lines[at : at + 3]), 1.0) for at in range(0, len(lines), 3)]
            found += [("none", line, HARMLESS_WEIGHT) for line in lines]
    return [one for one in found if one[0] != "muster-verdict"]


def learn(found):
    """{word: (idf, {row: weight})} and {row: bias}."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    bags = [words(text) for _, text, _ in found]
    count = collections.Counter(word for bag in bags for word in bag)
    idf = {word: math.log(len(bags) / n) for word, n in count.items() if n >= LEAST_TEXTS}
    table = []
    for bag in bags:
        known = {word: idf[word] for word in bag if word in idf}
        length = math.sqrt(sum(value * value for value in known.values())) or 1.0
        table.append({word: value / length for word, value in known.items()})
    maker = DictVectorizer()
    model = LogisticRegression(C=STRENGTH, max_iter=400)
    model.fit(maker.fit_transform(table), [row for row, _, _ in found], sample_weight=[weight for _, _, weight in found])
    weights = model.coef_ - model.coef_.mean(axis=0)
    bias = model.intercept_ - model.intercept_.mean()
    learned = {}
    for at, word in enumerate(maker.get_feature_names_out()):
        kept = {str(row): float(weights[k, at]) for k, row in enumerate(model.classes_) if abs(weights[k, at]) >= LEAST_WEIGHT}
        if kept:
            learned[str(word)] = (idf[word], kept)
    return learned, dict(zip(map(str, model.classes_), map(float, bias)))


def table_text(learned, bias):
    """The form that muster/diagnose/log/likeness.cpp reads: rows with their bias, then words with idf and weights, in tenths."""
    rows = sorted(bias)
    lines = ["".join(f"{row} {round(10 * bias[row])}\n" for row in rows), "\n"]
    for word, (idf, weights) in sorted(learned.items()):
        pairs = " ".join(f"{rows.index(row)} {round(10 * weight)}" for row, weight in sorted(weights.items()))
        lines.append(f"{word} {round(10 * idf)} {pairs}\n")
    return "".join(lines)


def main():
    parts = sys.argv[1:] or sorted(file.stem for file in CORPUS.glob("*.txt"))
    learned, bias = learn(texts(parts, (ROOT / "docs/errors.md").read_text()))
    out = ROOT / "muster/diagnose/log/words.txt"
    out.write_bytes(table_text(learned, bias).encode(errors="surrogateescape"))
    print(f"{out.relative_to(ROOT)}: {len(bias)} rows, {len(learned)} words")


if __name__ == "__main__":
    main()
