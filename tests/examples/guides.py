#!/usr/bin/env python3
"""The guides say what the program does: guides.py BUILD

- Each command line of `muster` in a block or between backquotes names a command and flags that there are.
- Each `$ muster train … --explain` and `$ muster pipeline …` prints what stands below it (where its files are), but for what depends on the machine.
- The config file of docs/train.md gives the plan that it is said to give.
- Each block of TOML, YAML, Python or shell parses.
"""
import ast
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`((?:build/bin/)?muster [^`]+)`")
COMMAND = re.compile(r"(?:^|(?<=[\s(]))(?:\S*/)?muster ((?:run|train|evaluate|predict|new|tune|study|report|list|pipeline|data|doctor|gpu|completion|man)\b.*)")
# Words that depend on the machine.
OF_MACHINE = re.compile(r"^(workers|threads|device|note) ")
OF_PROCESSOR = "; convolutions' scratch is guessed on this processor"  # what an estimate of memory says on some


class Guides:
    def __init__(self, build):
        self.program = pathlib.Path(build).resolve() / "bin/muster"
        self.commands = 0
        self.plans = 0

    @functools.cache
    def flags(self, *command):
        done = subprocess.run([self.program, *command, "--describe"], capture_output=True, text=True, check=True)
        return {flag: bool(option["value"]) for option in json.loads(done.stdout)["options"] for flag in option["flags"]}

    def faults_of(self, words):
        """What is wrong with the words behind `muster`."""
        command = words[:2] if words[0] == "study" or words[:2] in (["data", "preview"], ["data", "split"]) else words[:1]
        if words[0] == "study" and (len(words) < 2 or not re.fullmatch("[a-z]+", words[1])):
            return  # of the family: `muster study CMD`
        self.commands += 1
        flags, at = self.flags(*command), len(command)
        while at < len(words) and words[at] != "--":
            word = words[at]
            name = word.split("=")[0].replace("_", "-") if words[0] == "run" else word.split("=")[0]
            if re.match(r"-[a-z-]", word):
                if name not in flags:
                    yield f"muster {' '.join(command)} has no {name}"
                elif flags[name] and "=" not in word:
                    at += 1
            elif words[0] == "run":
                break  # the program
            at += 1
        rest = words[at + 1:] if at < len(words) and words[at] == "--" else words[at:]
        if words[0] == "run" and rest and rest[0].endswith("muster") and len(rest) > 1:
            yield from self.faults_of(rest[1:])

    def faults_in(self, line):
        found = COMMAND.search(line)
        if not found:
            return
        text = re.split(r"\s\|\|?\s|\)$|\s&&\s|\)\"", found[1])[0]
        text = re.sub(r"\S*…", "", text)  # what was left out, and a word that a table cut
        try:
            words = shlex.split(text, comments=True)
        except ValueError as error:
            yield f"{error}: {line}"
            return
        yield from self.faults_of(words)

    def printed(self, line, folder):
        """What a command of `muster train` prints, but for lines of the machine; None if it names files that are not here."""
        words = shlex.split(line)
        done = subprocess.run([self.program, *words[1:]], capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode and "no such file" in done.stderr:
            return None
        said = (done.stdout or done.stderr).replace(OF_PROCESSOR, "")
        return [text for text in said.splitlines() if not OF_MACHINE.match(text)]

    def plan_faults(self, block):
        """Of commands with --explain, and of `muster pipeline`, each followed by what it prints or the first lines of that."""
        lines = block.splitlines()
        for at, line in enumerate(lines):
            if not line.startswith("$ muster pipeline") and not (line.startswith("$ muster train") and "--explain" in line):
                continue
            shown = []
            for text in lines[at + 1:]:
                if text.startswith("$ "):
                    break
                shown.append(text)
            shown = [text for text in shown if not OF_MACHINE.match(text)]
            with tempfile.TemporaryDirectory() as folder:
                printed = self.printed(line[2:], folder)
            if printed is None:
                continue
            self.plans += 1
            if printed[:len(shown)] != shown:
                yield f"{line}\nprints\n" + "\n".join(printed)


def parse(language, text):
    if language == "toml":
        tomllib.loads(text.replace("…", ""))
    elif language == "python":
        ast.parse(text)
    elif language == "sh":
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)


def joined(text):
    """With lines that end in a backslash made one."""
    return re.sub(r"[ ]*\\\n\s*", " ", text)


def config_of_train(guides):
    """The TOML of docs/train.md and the flags above it."""
    text = (ROOT / "docs/train.md").read_text()
    flags = next(line for line in joined(text).splitlines() if line.startswith("$ muster train --model resnet18 --optimizer"))
    config = next(block for language, block in BLOCK.findall(text) if language == "toml")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "run.toml").write_text(config)
        if guides.printed(flags[2:], folder) != guides.printed("muster train --config run.toml --explain", folder):
            yield "docs/train.md: the config file gives another plan than the flags"


def faults(guides):
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    for page in pages:
        text = page.read_text()
        where = page.relative_to(ROOT)
        for language, block in BLOCK.findall(text):
            try:
                parse(language, block)
            except (ValueError, SyntaxError) as error:
                yield f"{where}: a block of {language} does not parse: {error}\n{block}"
            if language in ("", "sh"):
                for line in joined(block).splitlines():
                    yield from (f"{where}: {fault}\n{line}" for fault in guides.faults_in(line))
                yield from (f"{where}: {fault}" for fault in guides.plan_faults(joined(block)))
        for code in INLINE.findall(BLOCK.sub("", text)):
            yield from (f"{where}: {fault}\n{code}" for fault in guides.faults_in(code.replace("\n", " ")))
    yield from config_of_train(guides)


def main(build):
    guides = Guides(build)
    found = list(faults(guides))
    if found:
        sys.exit("\n".join(found))
    if guides.commands < 30 or guides.plans < 1:
        sys.exit(f"only {guides.commands} commands and {guides.plans} plans were found")
    print(f"{guides.commands} commands, {guides.plans} plans")


main(*sys.argv[1:])
