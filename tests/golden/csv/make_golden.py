"""Writes golden.json beside this file: the rows that Python's csv.reader(strict=True) makes of some texts.

"rows" are those before a fault, without those of empty lines; "fault" says that there is one. Run it with any Python:
    python3 tests/golden/csv/make_golden.py
"""

import csv
import io
import json
import random
from pathlib import Path

TEXTS = ["", "a,b\n1,2\n", "a,b\r\n1,2\r\n", "a,b\r1,2", "a,b\n\n\n1,2", "a", "a,", ",", ",,\n,", '"a,b",c', '"a\nb",c\n', '"a\r\nb",c\r\nd,e',
         '"a ""b"" c",d', '""', '"",""\n', '"" ,a', '"a"b,c\nd,e', '"a', 'x,"a\n\nb', 'a"b"c,d', "5'10\",x", '"""",a', '""""""\n', " a , b ", "a\tb\tc\n",
         'über,"日本\n語"\n', "a;b;c\n", '"a;b";c', '"a"\r"b"', "a\x0bb,c\x0cd\n", "a\u2028b,c\x85d\n", "last,\n", '"last"']
LETTERS = ['"', '"', '"', ",", ",", "\n", "\r", "\r\n", "a", "b", " ", "é", "\t"]


def rows_of(text, delimiter):
    rows = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
    except csv.Error:
        return {"text": text, "delimiter": delimiter, "rows": rows, "fault": True}
    return {"text": text, "delimiter": delimiter, "rows": rows, "fault": False}


def main():
    draw = random.Random(7)
    drawn = ["".join(draw.choices(LETTERS, k=draw.randint(1, 14))) for _ in range(300)]
    golden = [rows_of(text, ",") for text in TEXTS + drawn] + [rows_of(text, delimiter) for text in TEXTS for delimiter in "\t;"]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in golden)
    (Path(__file__).parent / "golden.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
