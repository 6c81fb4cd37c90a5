#!/usr/bin/env python3
"""Where a build's time went, by room and area, from ninja's own log.

    benchmarks/build/times.py [BUILD] [--worst N]     BUILD: build (default); a table in Markdown

Seconds are each step's own, from its start to its end: on a quiet machine with as many jobs as cores, and without a compiler
cache, that is its processor time. The last line has the wall time from the first step to the last.
"""
import collections
import pathlib
import re
import sys

KINDS = [
    (re.compile(r"muster/CMakeFiles/muster_(\w+)\.dir/unity/\w+/(\w+)_\d+\.cpp"), lambda m: (f"muster/{m[1]}", re.sub(r"_\d+_to_", " to ", m[2]))),
    (re.compile(r"muster/CMakeFiles/muster_(\w+)\.dir/(?:\w+/)?(\w+)?"), lambda m: (f"muster/{m[1]}", "single sources")),
    (re.compile(r"muster/CMakeFiles/torch_pch"), lambda m: ("precompiled headers", "torch rooms")),
    (re.compile(r"CMakeFiles/(\w*test_pch)"), lambda m: ("precompiled headers", m[1])),
    (re.compile(r"cli/CMakeFiles"), lambda m: ("cli", "")),
    (re.compile(r"tests/fuzz/"), lambda m: ("tests", "fuzz replay")),
    (re.compile(r"tests/CMakeFiles/(\w+?)(?:_tests)?\.dir"), lambda m: ("tests", m[1])),
    (re.compile(r"examples/"), lambda m: ("examples", "")),
    (re.compile(r"^(bin|lib)/|\.a$"), lambda m: ("linking", "")),
]


def place(output):
    for pattern, name in KINDS:
        if found := pattern.search(output):
            return name(found)
    return "other", ""


def steps(log):
    """output -> (start, end) in ms; a step that ran again counts as it ran last, one with several outputs once"""
    last = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, command = line.split("\t")
        last[command, start] = (int(start), int(end), output)
    newest = {}
    for start, end, output in last.values():
        newest[output] = (start, end)
    return newest


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    build = pathlib.Path(words[0] if words and not words[0].isdigit() else "build")
    found = steps(build / ".ninja_log")
    seconds = collections.defaultdict(lambda: collections.defaultdict(float))
    count = collections.Counter()
    for output, (start, end) in found.items():
        room, area = place(output)
        seconds[room][area] += (end - start) / 1000
        count[room] += 1
    print("| part | steps | seconds | of which |\n|---|---|---|---|")
    for room, areas in sorted(seconds.items(), key=lambda item: -sum(item[1].values())):
        words = [f"{area} {value:.0f}" for area, value in sorted(areas.items(), key=lambda item: -item[1]) if area and value >= 0.5]
        print(f"| {room} | {count[room]} | {sum(areas.values()):.0f} | {', '.join(words)} |")
    total = sum(sum(areas.values()) for areas in seconds.values())
    wall = (max(end for _, end in found.values()) - min(start for start, _ in found.values())) / 1000
    print(f"| **all** | {len(found)} | **{total:.0f}** | wall {wall:.0f} |")
    if "--worst" in sys.argv:
        for output, (start, end) in sorted(found.items(), key=lambda item: item[1][0] - item[1][1])[:int(sys.argv[-1])]:
            print(f"{(end - start) / 1000:7.1f} s  {output}", file=sys.stderr)


main()
