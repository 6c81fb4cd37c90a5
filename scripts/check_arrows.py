#!/usr/bin/env python3
"""Refuses an #include against the arrows between rooms and areas (docs/decisions/0015-areas-and-doors.md), and draws the house.

    check_arrows.py              checks this tree
    check_arrows.py --self-test  checks the check itself
    check_arrows.py --draw       docs/images/house.svg and the table in docs/tour.md, from the tree as it is
    check_arrows.py --drawn      fails where --draw would change them by more than numbers of lines
"""
import collections
import pathlib
import re
import sys
import textwrap

from house import ROOMS, CLI, OUTSIDE, DOORS_ONLY, TORCH_SIDE, TORCH_FREE_HEADERS

ROOT = pathlib.Path(__file__).resolve().parents[1]

TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")
# The wheel's fmt shadows Debian's: neither may be in a header or in a torch room.
FMT_HEADER = re.compile(r"(fmt|spdlog)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
DOOR = re.compile(r"muster/(\w+)\.h")


def within(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def place(path):
    """("tune", "schedule") of muster/tune/schedule/asha/x.h; ("tune", None) of the door muster/tune.h; None outside muster/."""
    parts = path.split("/")
    if parts[0] != "muster":
        return None
    if len(parts) == 2:
        return parts[1].removesuffix(".h"), None
    return parts[1], parts[2] if len(parts) > 3 else ""


def cli_area(path):
    """"screen" of cli/screen/live_table.h; None outside cli/."""
    parts = path.split("/")
    return None if parts[0] != "cli" else parts[1] if len(parts) > 2 else ""


def torch_free(path):
    here = place(path)
    if here is not None:
        return here[0] in ROOMS and not ROOMS[here[0]].torch
    return within(path, ["cli"]) and not within(path, TORCH_SIDE)


def may_include(path, header):
    """Why not, or nothing."""
    here, there = place(path), place(header)
    if here is None:
        area, other = cli_area(path), cli_area(header)
        if area is not None and other is not None and other not in [area, *CLI[area]]:
            return f"cli/{area} may not see {header}".replace("/ ", " ")
        outside = next(folder for folder in OUTSIDE if within(path, [folder]))
        if not within(header, [outside, *OUTSIDE[outside]]):
            return f"{outside} may not see {header}"
        if within(path, DOORS_ONLY) and there is not None and there[1] is not None:
            return f"{header} is not a door: include muster/{there[0]}.h, as users do"
        return None
    if there is None:
        return f"muster/{here[0]} may not see {header}"
    room, area = here
    if there[0] == room:
        if area is None:
            return None  # the door itself
        if there[1] is None:
            return f"{header} is the room's own door: include what is needed"
        if there[1] not in [area, *ROOMS[room].areas[area]]:
            return f"{room}/{area} may not see {room}/{there[1]}".replace("/ ", " ").rstrip("/")
        return None
    if there[0] not in ROOMS[room].sees:
        return f"muster/{room} may not see {header}"
    if there[1] is None and area is not None:
        return f"{header} is a door for users: within muster/, include what is needed"
    return None


def faults(path, text):
    """What is wrong with the includes of one file; `path` is relative to the root, with slashes."""
    here = place(path)
    known = here[0] in ROOMS and (here[1] is None or here[1] in ROOMS[here[0]].areas) if here else (
        within(path, OUTSIDE) and cli_area(path) in [None, *CLI])
    if not known:
        yield f"{path}: this folder has no arrows\nhint: say in scripts/house.py what it may see"
        return
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        header = match.group(2)
        if header.startswith(("muster/", "cli/", "tests/", "examples/", "benchmarks/")):
            if why := may_include(path, header):
                yield f"{path}:{line}: {why}"
            elif header in TORCH_FREE_HEADERS and (within(path, ["cli"]) or path in TORCH_FREE_HEADERS):
                pass
            elif path in TORCH_FREE_HEADERS:
                yield f"{path}:{line}: torch-free files include it, so it includes the standard library alone"
            elif torch_free(path) and (there := place(header)) and ROOMS[there[0]].torch:
                yield f"{path}:{line}: a torch-free file may not see {header}"
        elif TORCH_HEADER.match(header) and (torch_free(path) or path in TORCH_FREE_HEADERS):
            yield f"{path}:{line}: a torch-free file may not see <{header}>"
        elif FMT_HEADER.match(header) and (path.endswith(".h") or not torch_free(path)):
            yield f"{path}:{line}: {header} stays in sources of torch-free rooms; base/text.h offers what is needed"


def circles():
    """Areas that include each other in a circle; rooms must come after what they see."""
    order = list(ROOMS)
    for name, room in ROOMS.items():
        for other in room.sees:
            if order.index(other) >= order.index(name):
                yield f"{name} comes before {other}, which it sees"
    for name, areas in {**{name: room.areas for name, room in ROOMS.items()}, "cli": CLI}.items():
        if unknown := {b for after in areas.values() for b in after} - set(areas):
            yield f"{name} has no area {', '.join(sorted(unknown))}"

        def reach(area, seen):
            for other in areas.get(area, []):
                if other not in seen:
                    seen.add(other)
                    reach(other, seen)
            return seen
        for area in areas:
            if area in reach(area, set()):
                yield f"{name}/{area} sees itself through others"


def self_test():
    cases = [
        ("muster/launch/job/a.cpp", '#include "muster/base/error.h"', 0),
        ("muster/launch/job/a.cpp", '#include "muster/parallel/ddp/ddp.h"', 1),
        ("muster/launch/process/a.cpp", '#include "muster/launch/job/job.h"', 1),
        ("muster/launch/job/a.cpp", '#include "muster/launch/process/warden.h"', 0),
        ("muster/launch/io/a.cpp", '#include "muster/launch.h"', 1),
        ("muster/tune/run/a.cpp", '#include "muster/launch.h"', 1),
        ("muster/tune/schedule/asha/a.cpp", '#include "muster/tune/schedule/scheduler.h"', 0),
        ("muster/tune/schedule/asha/a.cpp", '#include "muster/tune/schedulers/asha.h"', 1),
        ("muster/base/a.h", "#include <c10/util/Exception.h>", 1),
        ("muster/formats/a.cpp", "#  include <torch/torch.h>", 1),
        ("muster/formats/a.cpp", '#include "muster/data/dataset.h"', 1),
        ("muster/data/sets/a.cpp", '#include "muster/formats/idx.h"\n#include <torch/torch.h>', 0),
        ("muster/distributed/monitor/a.cpp", '#include "muster/distributed/process_group.h"', 1),
        ("muster/distributed/a.cpp", '#include "muster/distributed/monitor/monitor.h"', 0),
        ("muster/train/loop/a.cpp", '#include "muster/track/progress.h"', 0),
        ("muster/train/loop/a.cpp", '#include "muster/train/plan/fit_plan.h"', 0),
        ("muster/train/loop/a.cpp", '#include "muster/train/classifier/train_plan.h"', 1),
        ("muster/train/metrics/a.cpp", '#include "muster/train/classifier/trainer.h"', 1),
        ("muster/train/loop/a.cpp", '#include "muster/launch/job/job.h"', 1),
        ("muster/parallel/ddp/a.cpp", '#include "cli/screen/live_table.h"', 1),
        ("muster/train.h", '#include "muster/train/classifier/trainer.h"', 0),
        ("muster/parallel.h", '#include "muster/distributed.h"', 0),
        ("muster/parallel.h", '#include "muster/train.h"', 1),
        ("cli/commands/a.cpp", '#include "muster/train/classifier/train_plan.h"', 1),
        ("cli/a.cpp", '#include "muster/train/plan/options.h"', 0),
        ("muster/track/a.cpp", '#include "muster/train/plan/options.h"', 1),
        ("muster/train/plan/options.h", '#include "muster/train/classifier/train_plan.h"\n#include <ATen/Parallel.h>', 2),
        ("cli/torch/commands/a.cpp", '#include "muster/train/classifier/train_plan.h"\n#include <ATen/Parallel.h>', 0),
        ("examples/a.cpp", '#include "muster/parallel.h"', 0),
        ("examples/a.cpp", '#include "muster/parallel/ddp/ddp.h"', 1),
        ("tests/consume/a.cpp", '#include "muster/track/progress.h"', 1),
        ("muster/train/loop/a.cpp", "#include <fmt/format.h>", 1),
        ("tests/cli/a.cpp", '#include "cli/screen/live_table.h"', 0),
        ("cli/line/a.cpp", '#include "cli/screen/live_table.h"', 0),
        ("cli/screen/a.cpp", '#include "cli/line/app.h"', 1),
        ("cli/line/a.cpp", '#include "cli/command.h"', 1),
        ("cli/new_area/a.cpp", "", 1),
        ("muster/new_room/a.cpp", "", 1),
        ("muster/tune/new_area/a.cpp", "", 1),
        ("muster/tune/a.cpp", "", 1),
    ]
    return [f"self-test: {path} {text!r}: {len(found)} faults, expected {count}"
            for path, text, count in cases if len(found := list(faults(path, text))) != count] + list(circles())


def sources(folders=("muster", *OUTSIDE)):
    return sorted(f for folder in folders for f in (ROOT / folder).rglob("*") if f.suffix in (".h", ".cpp"))


# --- the picture

def lines_of_areas():
    """(room, area) -> (files, lines)"""
    count = collections.defaultdict(lambda: [0, 0])
    for file in sources(["muster"]):
        room, area = place(file.relative_to(ROOT).as_posix())
        count[room, area or ""][0] += 1
        count[room, area or ""][1] += len(file.read_text().splitlines())
    return {key: tuple(value) for key, value in count.items()}


def plural(room, area):
    """A folder of strategies: one file each and nothing else."""
    text = (ROOT / "muster/CMakeLists.txt").read_text()
    return f"FOLDER {room}/{area} " in text


def table():
    counts = lines_of_areas()
    rows = ["| room | what it is | areas (lines; *strategies*) | sees | lines |", "|---|---|---|---|---|"]
    for name, room in ROOMS.items():
        areas = [(area, counts[name, area]) for area in room.areas if (name, area) in counts]
        if not areas:
            continue
        words = [f"*{area}* {lines}" if plural(name, area) else f"{area} {lines}" for area, (_, lines) in areas if area]
        kind = "torch" if room.torch else "torch-free"
        rows.append(f"| **{name}** | {room.what} ({kind}) | {', '.join(words) or '-'} | {', '.join(room.sees) or '-'} | "
                    f"{sum(lines for _, (_, lines) in areas)} |")
    lines = collections.Counter()
    for file in sources(["cli"]):
        lines[cli_area(file.relative_to(ROOT).as_posix())] += len(file.read_text().splitlines())
    words = ", ".join(f"*{area}* {lines[area]}" if area == "commands" else f"{area} {lines[area]}" for area in CLI if area)
    rows.append(f"| *cli* | the program `muster`, above all rooms (torch: what needs LibTorch) | {words} | all | {sum(lines.values())} |")
    return "\n".join(rows)


def reduced(sees):
    """Without arrows that follow from others."""
    def all_below(room):
        return set(ROOMS[room].sees) | {b for r in ROOMS[room].sees for b in all_below(r)}
    return [room for room in sees if not any(room in all_below(other) for other in sees)]


def svg():
    """Rooms on floors, each above what it sees."""
    counts = lines_of_areas()
    rooms = {name: room for name, room in ROOMS.items() if any(key[0] == name for key in counts)}
    floor = {}
    for name in rooms:
        floor[name] = 1 + max((floor[other] for other in rooms[name].sees if other in floor), default=-1)
    floors = [[name for name in rooms if floor[name] == level] for level in range(max(floor.values()) + 1)]
    width, gap, line, letter = 1180, 44, 14, 6.9
    place_of, rows_of, bottom = {}, {}, 20
    for level, names in enumerate(floors):
        # Above the middle of what they see, so that arrows are short.
        middle = {name: [x + box / 2 for other in reduced(rooms[name].sees) if other in place_of for x, _, box, _ in [place_of[other]]]
                  for name in names}
        if level > 1:
            names = sorted(names, key=lambda name: sum(middle[name]) / len(middle[name]))
        step = width / len(names)
        box = min(step - 24, 300)
        for name in names:
            areas = " · ".join(a for a in rooms[name].areas if a and (name, a) in counts)
            wrapped = [textwrap.wrap(text, int((box - 24) / letter)) for text in (rooms[name].what, areas)]
            rows_of[name] = [("small", row) for row in wrapped[0]] + [("area", row.strip(" ·")) for row in wrapped[1]]
        high = 42 + line * max(len(rows_of[name]) for name in names)
        for i, name in enumerate(names):
            place_of[name] = (i * step + (step - box) / 2, bottom + high, box, high)
        bottom += high + gap
    height = bottom + 10 - gap
    place_of = {name: (x, height - top, box, high) for name, (x, top, box, high) in place_of.items()}
    arrows, boxes = [], []
    for name, room in rooms.items():
        x, y, box, high = place_of[name]
        for other in reduced([r for r in room.sees if r in rooms]):
            ox, oy, obox, _ = place_of[other]
            x1, x2, mid = x + box / 2, ox + obox / 2, (y + high + oy) / 2
            arrows.append(f'<path class="arrow" d="M{x1:.0f},{y + high:.0f} C{x1:.0f},{mid:.0f} {x2:.0f},{mid:.0f} {x2:.0f},{oy - 3:.0f}" '
                          'marker-end="url(#head)"/>')
        lines = sum(value[1] for key, value in counts.items() if key[0] == name)
        kind = "torch" if room.torch else "free"
        boxes.append(f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{box:.0f}" height="{high}" rx="6"/>')
        boxes.append(f'<text class="name" x="{x + 12:.0f}" y="{y + 22:.0f}">{name}</text>')
        boxes.append(f'<text class="small" text-anchor="end" x="{x + box - 12:.0f}" y="{y + 22:.0f}">{lines:,} lines</text>')
        for j, (look, row) in enumerate(rows_of[name]):
            baseline = y + 40 + j * line + (5 if look == "area" else 0)
            boxes.append(f'<text class="{look}" x="{x + 12:.0f}" y="{baseline:.0f}">{row}</text>')
    return f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="DejaVu Sans, Helvetica, sans-serif">
<!-- Written by scripts/check_arrows.py. -->
<title>The rooms of Muster: each stands above the rooms that it may include</title>
<style>
rect {{ stroke: #555; stroke-width: 1 }} .free {{ fill: #eef4ea }} .torch {{ fill: #f6ede2 }}
.name {{ font-size: 15px; font-weight: bold }} .small {{ font-size: 11px; fill: #444 }} .area {{ font-size: 11px; fill: #225 }}
.arrow {{ fill: none; stroke: #888; stroke-width: 1.2 }}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#888"/></marker></defs>
<rect x="0" y="0" width="{width}" height="{height}" fill="white" stroke="none" style="stroke:none"/>
{chr(10).join(arrows)}
{chr(10).join(boxes)}
<text class="small" x="12" y="{height - 6}">green: torch-free; brown: needs LibTorch. An arrow leads to what may be included; those that follow from others are left out.</text>
</svg>
'''


MARKS = re.compile(r"(<!-- house:begin -->\n).*?(<!-- house:end -->)", re.DOTALL)


def drawn():
    """path -> text, as --draw writes it"""
    tour = (ROOT / "docs/tour.md").read_text()
    return {ROOT / "docs/images/house.svg": svg(),
            ROOT / "docs/tour.md": MARKS.sub(lambda m: f"{m.group(1)}{table()}\n{m.group(2)}", tour)}


def without_numbers(text):
    return re.sub(r"\d[\d,]*", "0", text)


def main():
    found = self_test()
    if "--draw" in sys.argv:
        for file, text in drawn().items():
            file.write_text(text)
    elif "--drawn" in sys.argv:
        found += [f"{file.relative_to(ROOT)} shows another house\nhint: scripts/check_arrows.py --draw"
                  for file, text in drawn().items() if not file.exists() or without_numbers(file.read_text()) != without_numbers(text)]
    if "--self-test" not in sys.argv:
        files = sources()
        for file in files:
            found += faults(file.relative_to(ROOT).as_posix(), file.read_text())
        print(f"{len(files)} files")
    if found:
        sys.exit("\n".join(found))


main()
