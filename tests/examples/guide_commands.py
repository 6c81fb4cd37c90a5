#!/usr/bin/env python3
"""The commands of the guides do what the guides say: guide_commands.py BUILD [GUIDE…]

Each command line of a block without a language, or of a block of shell, in docs/*.md and README.md is run as it stands, in order, in a
scratch folder per guide; a block begins in that folder. It has to end with 0, or with another code where an error stands below it, and
to print the lines that stand below it, whatever the numbers. What is done otherwise, and why, stands in guide_table.py:

- what long trainings would do is asked for with --explain (planned);
- some are run by another test, and a few need what no test may have;
- folders and programs of the reader, and a small part of Fashion-MNIST, stand in.

So are commands between backquotes in the text, behind the others of their guide, where nothing is left open in them (NAME, …), they only
read (READ_ONLY), and the files that they name are there: they have to end with 0. Each is run once, whatever guides have it.

A line of the table that no guide has any more is a fault.
"""
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import guide_table
import guide_worlds

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
RUN_BY = re.compile(r"<!-- run by (\S+) -->\n$")
# With what a line begins that is a command where no line of its block begins with "$ ".
PROGRAMS = """muster make ninja cmake ctest ccache git sudo apt apt-get dpkg pip pip3 pipx conda uv python python3 pytest tensorboard
torchrun ray optuna-dashboard srun sbatch salloc ssh scp rsync docker podman kubectl curl wget bash sh source export env cd ls cp mv rm ln
mkdir cat zcat head tail less grep sed awk jq tar unzip gzip echo printf cmp diff kill nice taskset ulimit nvidia-smi nsys gdb perf
openssl"""
PROGRAM = re.compile(rf"(?:[A-Z_]+='[^']*' |[A-Z_]+=\S+ )*"
                     rf"(?:{'|'.join(PROGRAMS.split())}|\S*build/bin/\S+|~/\S+|\./\S+|[a-z_]+=\S+)(?= |$)")
INLINE = re.compile(r"`((?:build/bin/)?muster [^`]+)`")
READ_ONLY = re.compile(r" --(?:help|explain|dry-run)\b|^muster (?:list|man|completion) [a-z-]+$|^muster data info \S|"
                       r"^muster study (?:best|list) \S|^muster pipeline [a-z0-9]")
LEFT_OPEN = re.compile(r"…|[<>\[\]|]|(?<![\w$./-])[A-Z]+(?!\w)")
FILE = re.compile(r"\.(?:db|toml|csv|json|yaml|tar|pt|safetensors|png|jpe?g|txt)\b|/")
LIMIT_S = 200  # of one command: what takes so long hangs

DURATION = re.compile(r"\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?m?s\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclasses.dataclass
class Command:
    guide: str
    block: int  # of the guide, from 0
    line: int
    text: str
    shown: list
    run_by: str = ""


def joined(text):
    """With lines that end in a backslash made one."""
    return re.sub(r"[ ]*\\\n\s*", " ", text)


def commands_of(guide, text):
    """The commands of a guide, and its files, which are blocks that guide_table names: (commands, [(block, name, text)])."""
    commands, files = [], []
    run_by = guide_table.SCRIPTS.get(guide, "")
    named = dict(guide_table.FILES.get(guide, {}))
    for number, block in enumerate(BLOCK.finditer(text)):
        body, line = block[2], text.count("\n", 0, block.start()) + 2
        first = body.splitlines()[0] if body else ""
        if first in named:
            files.append((number, named.pop(first), body))
            continue
        if block[1] not in ("", "sh"):
            continue
        marked = RUN_BY.search(text[:block.start()])
        if block[1] == "sh":
            commands.append(Command(guide, number, line, body, [], marked[1] if marked else run_by))
            continue
        session = re.search(r"^\$ ", body, re.M)
        if not session and not any(map(PROGRAM.match, body.splitlines())):
            continue  # what a program prints
        for row in joined(body).splitlines():
            if session and not row.startswith("$ "):
                if commands and commands[-1].block == number:
                    commands[-1].shown.append(row)
                continue
            commands.append(Command(guide, number, line, row.removeprefix("$ "), [], marked[1] if marked else ""))
    assert not named, f"{guide} has no block that begins with {list(named)}"
    return commands, files


def inline_commands(guide, text):
    """Those between backquotes in the text that can be run as they stand and change nothing, each once."""
    found = {}
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for code in INLINE.finditer(text):
        words = " ".join(code[1].split()).removeprefix("build/bin/")
        if READ_ONLY.search(words) and not LEFT_OPEN.search(words):
            found.setdefault(words, Command(guide, -1, text.count("\n", 0, code.start()) + 1, words, []))
    return list(found.values())


def plain(line):
    """The words of a line, without numbers and how they are laid out."""
    line = NUMBER.sub("#", DURATION.sub("#", line))
    line = re.sub(r"#(?:, #)+", "#", re.sub(r"\bworkers\b", "worker", re.sub(r"\bon (vm|host) \S+", r"on \1 #", line)))
    return re.sub(r"-{2,}", "--", " ".join(line.split()))


def is_printed(shown, printed, exact):
    form = (lambda text: text.rstrip()) if exact else plain
    pattern = re.compile(".*".join(re.escape(part) for part in form(shown).split("…")))
    return any(pattern.fullmatch(form(line)) for line in printed)


def without_comment(text):
    return re.sub(r"\s+# .*$", "", text)


class Runner:
    """The commands of one guide in its folder."""
    looked_at = set()  # commands in the texts of all guides

    def __init__(self, guide, build, folder, rules):
        self.guide, self.rules = guide, rules
        self.world = guide_worlds.World(build, folder, ROOT, self.shell)
        self.state = folder / "home/state.sh"
        self.counts = {"run": 0, "plan": 0, "elsewhere": 0, "except": 0, "inline": 0}
        self.faults, self.times = [], []
        self.block = None
        self.env = {"HOME": str(folder / "home"), "PATH": f"{folder / 'bin'}:{build / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
                    "TMPDIR": str(folder / "home"),
                    **{name: value.format(build=build, folder=folder) for name, value in guide_table.ENVIRONMENT.get(guide, {}).items()}}

    def shell(self, text, interrupt_when=None):
        """Exit code and lines printed. What it exports, and where it goes, holds for the next ones."""
        script = f". {self.state} 2>/dev/null\n{'trap : INT' if interrupt_when else ''}\n{text}\ncode=$?\nexport -p > {self.state}\n" \
                 f'echo "cd $(pwd)" >> {self.state}\nexit $code\n'
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(["bash", "-o", "pipefail", "-c", script], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                       cwd=self.world.folder, env=self.env, start_new_session=True)
            until = time.monotonic() + LIMIT_S
            while interrupt_when and process.poll() is None and time.monotonic() < until:
                if (self.world.folder / interrupt_when).exists():
                    os.killpg(process.pid, signal.SIGINT)
                    interrupt_when = None
                time.sleep(0.002)
            try:
                code = process.wait(max(1.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = f"no end after {LIMIT_S} s"
            said.seek(0)
            return code, said.read().decode(errors="replace").splitlines()

    def rule_of(self, command, number):
        """The first one that fits, or none. `number`: of the guide's commands that are alike."""
        for rule in self.rules:
            is_meant = command.text == rule.begins[:-1] if rule.begins.endswith("$") else command.text.startswith(rule.begins)
            if is_meant and rule.number in (0, number):
                rule.used = True
                return rule
        return guide_table.Rule(self.guide, "")

    def made_ready(self, command, rule):
        """The command with what stands in, and with --explain if it is only planned."""
        text = without_comment(command.text)
        for stand_in in guide_table.STAND_INS:
            if stand_in.guide in ("*", self.guide):
                text, count = re.subn(stand_in.pattern, stand_in.instead, text)
                stand_in.used = stand_in.used or count > 0
        if rule.how == "plan":
            return f"{text} {rule.flag}"
        if re.search(r"\bmuster train\b", text) and not re.search(r" --(data|data-dir|resume|config|explain)\b", text):
            text += f" --data-dir {self.world.fashion_mnist(rule.share or guide_table.SHARES.get(self.guide, guide_table.SHARE))}"
        return text

    def run(self, command, rule, text):
        if rule.before:
            rule.before(self.world)
        wants = rule.code if rule.code is not None else 1 if any(re.search(r"(^|\s)error: ", line) for line in command.shown) else 0
        shown = [line for line in command.shown if re.search(rule.shown, line) and line.strip() not in ("", "…", "^C")]
        for _ in range(rule.tries):
            for _ in range(5):  # a run that ends before it hears of the interruption is begun anew
                code, printed = self.shell(text, rule.interrupt_when)
                if rule.interrupt_when is None or code != 0:
                    break
                self.world.remove_runs()
            missing = [line for line in shown if not is_printed(line, printed, rule.exact)]
            if not missing:
                break
        if rule.after:
            rule.after(self.world)
        if (code != wants) if wants in (0, 130) else not (isinstance(code, int) and code > 0):
            yield f"ends with {code} instead of {wants if wants in (0, 130) else 'an error'}:\n" + "\n".join(printed[-20:])
            return
        if rule.how == "plan":
            return
        if rule.shown and not shown:
            yield f"nothing that it shows is like {rule.shown}"
        if missing:
            yield "does not print\n    " + "\n    ".join(missing) + "\nbut\n    " + "\n    ".join(printed[-40:])

    def follow(self, command, number):
        rule = self.rule_of(command, number)
        how = "elsewhere" if command.run_by else rule.how
        self.counts[how] += 1
        if how in ("elsewhere", "except"):
            test = command.run_by or rule.why
            if how == "elsewhere" and not (ROOT / test).exists():
                self.faults.append(f"{self.guide}:{command.line}: there is no {test}, which should run\n{command.text}")
            return
        if command.block != self.block:
            self.block = command.block
            with open(self.state, "a") as state:
                state.write(f"cd {self.world.folder}\n")
        text = self.made_ready(command, rule)
        started = time.monotonic()
        try:
            self.faults += [f"{self.guide}:{command.line}: {text}\n{fault}" for fault in self.run(command, rule, text)]
        except (AssertionError, OSError) as error:
            self.faults.append(f"{self.guide}:{command.line}: {text}\ncannot be made ready: {error}")
        self.times.append((time.monotonic() - started, f"{self.guide}: {text}"))

    def look(self, command):
        """Runs a command of the text, if its files are there and no guide has run it."""
        text = self.made_ready(command, guide_table.Rule(self.guide, ""))
        files = [word for word in text.split()[2:] if FILE.search(word)]
        if text in self.looked_at or not all((self.world.folder / word.split(":")[-1].split(",")[0]).exists() for word in files):
            return
        self.looked_at.add(text)
        self.counts["inline"] += 1
        started = time.monotonic()
        code, printed = self.shell(f"cd {self.world.folder} && {text}")
        if code != 0:
            self.faults.append(f"{self.guide}:{command.line}: {text}\nends with {code} instead of 0:\n" + "\n".join(printed[-20:]))
        self.times.append((time.monotonic() - started, f"{self.guide}: {text}"))

    def follow_all(self, commands, files, inline):
        seen = {}
        try:
            for command in commands:
                while files and files[0][0] < command.block:
                    self.world.write(*files.pop(0)[1:])
                seen[command.text] = seen.get(command.text, 0) + 1
                self.follow(command, seen[command.text])
            for command in inline:
                self.look(command)
        finally:
            self.world.close()


def check_guide(guide, build, folder):
    page = (ROOT / guide).read_text()
    commands, files = commands_of(guide, page)
    runner = Runner(guide, build, folder, [rule for rule in guide_table.RULES if rule.guide == guide])
    guide_table.PREPARE.get(guide, lambda world: None)(runner.world)
    runner.follow_all(commands, files, inline_commands(guide, page))
    return runner


def unused(guides):
    for rule in guide_table.RULES:
        if rule.guide in guides and not rule.used:
            yield f"guide_table.py: {rule.guide} has no command any more that begins with {rule.begins!r}" + \
                  (f" for the {rule.number}. time" if rule.number else "")
    for stand_in in guide_table.STAND_INS:
        if stand_in.guide in guides and not stand_in.used:
            yield f"guide_table.py: no command of {stand_in.guide} has {stand_in.pattern!r} any more"


def main(build, *guides):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who was started without it hands that on
    every = [f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))] + ["README.md"]
    chosen = list(guides) or every
    order = sorted(chosen, key=lambda guide: guide_table.LONGEST_FIRST.index(guide) if guide in guide_table.LONGEST_FIRST else 99)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="muster-guides-") as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folders = {guide: pathlib.Path(scratch) / guide.removesuffix(".md").replace("/", "-") for guide in order}
        runners = list(pool.map(lambda guide: check_guide(guide, pathlib.Path(build).resolve(), folders[guide]), order))
    faults = [fault for runner in runners for fault in runner.faults] + list(unused(chosen))
    count = {how: sum(runner.counts[how] for runner in runners) for how in ("run", "plan", "elsewhere", "except", "inline")}
    slowest = sorted((entry for runner in runners for entry in runner.times), reverse=True)[:8]
    print("\n".join(f"{took:5.1f} s  {text}" for took, text in slowest))
    print(f"{count['run']} commands were run, {count['plan']} only planned, {count['elsewhere']} are run by other tests, "
          f"{count['except']} by none; {count['inline']} of the texts were run; {time.monotonic() - started:.0f} s")
    if faults:
        sys.exit("\n\n".join(faults))
    if not guides and (count["run"] < 60 or count["inline"] < 10):
        sys.exit("so few commands were found")


if __name__ == "__main__":
    main(*sys.argv[1:])
