#!/usr/bin/env python3
"""Checks of the tree that no compiler makes. Run by CTest, after a build:

    check_tree.py BUILD     BUILD has compile_commands.json, bin/muster and the rooms' libraries
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE_FOLDERS = ["muster", "cli", "tests", "examples", "benchmarks", "cmake", "scripts"]
MAX_LINES = 400


def files(*suffixes, folders=CODE_FOLDERS):
    found = (file for folder in folders for file in (ROOT / folder).rglob("*"))
    return sorted(file for file in found if file.suffix in suffixes)


def name(file):
    return file.relative_to(ROOT).as_posix()


def every_source_is_built(build):
    """A *_test.cpp or strategy that no target has would be green for ever."""
    commands = json.loads((build / "compile_commands.json").read_text())
    built = {pathlib.Path(command["file"]).resolve() for command in commands}
    for unit in [file for file in built if file.parent.parent.name == "unity"]:  # sources of an area, compiled together
        built |= {ROOT / source for source in re.findall(r'#include "([^"]+\.cpp)"', unit.read_text())}
    for source in files(".cpp", folders=["muster", "cli", "tests", "examples"]):
        # Built where NCCL's headers are; a project of its own, built by the CTest consume.installed.
        optional = name(source).startswith(("muster/distributed/nccl/", "tests/consume/"))
        if source.resolve() not in built and not optional:
            yield f"{name(source)} is built by no target"


def files_are_short(build):
    for file in files(".cpp", ".h", ".py", ".sh", ".cmake"):
        lines = len(file.read_text().splitlines())
        if lines > MAX_LINES:
            yield f"{name(file)} has {lines} lines; at most {MAX_LINES}"


ENTRY = re.compile(r"extern constinit const (\w+Entry) (\w+)_entry\s*\{(.*?)\n?\};", re.DOTALL)
TEXT = re.compile(r'(\.\w+\s*=\s*)?((?:"(?:[^"\\]|\\.)*"\s*)+)')


def entries_have_help(build):
    """Each strategy's file ends in one constant of its own name, with a name and a help text."""
    for source in files(".cpp", folders=["muster", "cli"]):
        for kind, stem, body in ENTRY.findall(source.read_text()):
            texts = ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)) for _, text in TEXT.findall(body)]
            if stem != source.stem:
                yield f"{name(source)}: its entry is {stem}_entry, not {source.stem}_entry"
            if len(texts) < 2 or not texts[0].strip() or not texts[1].strip():
                yield f"{name(source)}: {kind} without name or help"


MOST_UNNAMED = 6
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def values_of(body):
    """How many values an initialiser has; commas within brackets are part of one."""
    text, depth, count = STRING.sub("", re.sub(r"//.*", "", body)), 0, 1
    for letter in text.rstrip().rstrip(","):
        depth += (letter in "([{") - (letter in ")]}")
        count += letter == "," and depth == 0
    return count


def long_entries_name_their_fields(build):
    """A value of an unnamed field slides into the next one when a field is added, and often compiles."""
    for source in files(".cpp", folders=["muster", "cli", "tests"]):
        for kind, stem, body in ENTRY.findall(source.read_text()):
            if not body.lstrip().startswith(".name") and values_of(body) > MOST_UNNAMED:
                yield f"{name(source)}: {kind} {stem}_entry has {values_of(body)} values without names"


BY_NAME = re.compile(r'\b(?:entry(?:->|\.)name|strategy\.name|backend\(\)|\w+_entry\.name'
                     r'|(?:strategy|schedule|optimizer|model|backend)_name|comm_hook)\s*[=!]=\s*"')


def decisions_go_by_properties(build):
    """What is special about a strategy is a field of its entry, which a new one can have, too."""
    for source in files(".cpp", ".h", folders=["muster"]):
        for number, line in enumerate(source.read_text().splitlines(), 1):
            if BY_NAME.search(line):
                yield f"{name(source)}:{number}: a decision by an entry's name: make it a field of the entry"


def specs_are_read_by_one_parser(build):
    """name:key=value,… is read by parse_spec, so that its mistakes get one text everywhere."""
    for source in files(".cpp", ".h", folders=["muster", "cli"]):
        if "parse_param_values" in source.read_text() and source.stem != "params":
            yield f"{name(source)}: parse_param_values: take parse_spec of muster/base/params.h"


def listed_parameters_have_help(build):
    def listing(*words):
        run = subprocess.run([build / "bin/muster", "list", *words, "--json"], capture_output=True, text=True, check=True)
        return json.loads(run.stdout)

    kinds = listing()
    for kind in kinds:
        entries = listing(kind["name"])
        if not kind["help"] or not entries:
            yield f"muster list: {kind['name']} has no help or no entries"
        for entry in entries:
            for thing in [entry, *entry.get("params", [])]:
                if not thing["help"]:
                    yield f"muster list {kind['name']}: {thing['name']} has no help"


def no_gloo_class_is_ours(build):
    """Debian's gloo headers and the wheel's gloo are years apart: a class of ours that derives from one of gloo's would
    have the old layout."""
    libraries = sorted((build / "muster").glob("*.a"))
    if not libraries:
        yield f"no libraries in {build / 'muster'}"
    for library in libraries:
        symbols = subprocess.run(["nm", "-C", library], capture_output=True, text=True, check=True).stdout
        for line in symbols.splitlines():
            if "vtable for gloo" in line or "vtable for c10d::ProcessGroupGloo::" in line and " U " not in line:
                yield f"{library.name}: {line.strip()}"


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"")


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_lead_somewhere(build):
    pages = [*ROOT.glob("*.md"), *files(".md", folders=["docs", *CODE_FOLDERS])]
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in ("".join(groups) for groups in LINK.findall(text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists():
                yield f"{name(page)}: {target} does not exist"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{name(page)}: {target}: no such heading"


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OTHERS_FLAGS = {"--logdir"}  # tensorboard's


def guides_and_flags_agree(build):
    """The guides to training name no flag that is not there, and leave out none of the commands that they are about."""
    def flags(command):
        run = subprocess.run([build / "bin/muster", command, "--help"], capture_output=True, text=True, check=True)
        return set(FLAG.findall(run.stdout))

    pages = [ROOT / "docs/train.md", ROOT / "docs/checkpoints.md"]
    theirs = flags("train") | flags("evaluate") | flags("predict")
    known, named = theirs | flags("run") | OTHERS_FLAGS, set()
    for page in pages:
        here = set(FLAG.findall(page.read_text()))
        named |= here
        yield from (f"{name(page)}: no command has {flag}" for flag in sorted(here - known))
    yield from (f"no guide tells of {flag}" for flag in sorted(theirs - flags("run") - named))


def flags_are_read_by_our_rules(build):
    """CLI11 saturates numbers and refuses in words of its own: muster/program/line/value.h reads them."""
    for source in files(".cpp", ".h", folders=["cli"]):
        if "add_option(" in source.read_text() and source.name != "value.cpp":
            yield f"{name(source)}: add_option: take add_value of muster/program/line/value.h"


def main(build):
    checks = [every_source_is_built, files_are_short, entries_have_help, long_entries_name_their_fields,
              decisions_go_by_properties, specs_are_read_by_one_parser, listed_parameters_have_help, no_gloo_class_is_ours,
              links_lead_somewhere, guides_and_flags_agree, flags_are_read_by_our_rules]
    found = []
    for check in checks:
        faults = list(check(pathlib.Path(build).resolve()))
        print(f"{check.__name__}: {'ok' if not faults else len(faults)}")
        found += faults
    if found:
        sys.exit("\n".join(found))


main(*sys.argv[1:])
