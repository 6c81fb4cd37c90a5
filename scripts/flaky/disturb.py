#!/usr/bin/env python3
"""Disturbs the tests that carry MUSTER_FLAKY=TOKEN in their environment; scripts/flaky.sh starts it.

    disturb.py TOKEN SEED LOG     until its standard input ends; `done` on it is the good end

Now and then it takes all cores away for 0.2 to 2.5 s (a busy loop on each, before every ordinary process), and stops a test, all
its processes or one of them, for as long (SIGSTOP, SIGCONT). What it did, and when, is in LOG. Whatever ends it, it leaves no
stopped process and no busy loop; if its input ends without `done`, flaky.sh is dead, and the tests are killed.
"""
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

START = time.monotonic()


def between(draw):
    return draw.uniform(0.2, 2.5)


class Process:
    def __init__(self, pid):
        self.pid = pid
        stat = Path(f"/proc/{pid}/stat").read_text()
        self.name = stat[stat.index("(") + 1:stat.rindex(")")]
        fields = stat[stat.rindex(")") + 2:].split()
        self.state, self.parent = fields[0], int(fields[1])
        self.environ = Path(f"/proc/{pid}/environ").read_bytes()
        self.words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def under(token):
    """What runs under the token, by process id."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            process = Process(int(folder.name))
        except OSError:
            continue  # it has ended, or is another's
        if f"MUSTER_FLAKY={token}".encode() in process.environ:
            found[process.pid] = process
    return found


def tests(token):
    """{process of a test that ctest started: all processes of that test}"""
    found = under(token)
    runners = {process.pid for process in found.values() if process.name == "ctest"}
    trees = {process: [process] for process in found.values() if process.parent in runners}
    for root, tree in trees.items():
        of_root = {root.pid}
        grown = True
        while grown:  # a process may hang on another than its starter: then the token of tests/support/launched.cpp tells
            more = [p for p in found.values() if p.pid not in of_root and (
                p.parent in of_root or f"MUSTER_TEST_TOKEN={root.pid}-".encode() in p.environ)]
            tree += more
            of_root |= {p.pid for p in more}
            grown = bool(more)
    return trees


def whole_only(root, tree):
    """Tests that stop a rank themselves, and judge who stands still: a single stop of ours would be one of theirs."""
    words = [word for process in [root, *tree] for word in process.words]
    return any("process_distributed_tests" in word or "stop-itself" in word for word in words)


class Disturber:
    def __init__(self, token, seed, log):
        self.token, self.draw, self.log = token, random.Random(seed), open(log, "a", buffering=1)
        self.stopped, self.hogs = [], []  # (pidfd, when to go on); process ids

    def say(self, what):
        print(f"{time.monotonic() - START:8.2f} s  {what}", file=self.log)

    def stop_a_test(self):
        trees = sorted(tests(self.token).items(), key=lambda item: item[0].pid)
        if not trees:
            return
        root, tree = self.draw.choice(trees)
        seconds = between(self.draw)
        if not whole_only(root, tree) and self.draw.random() < 0.5:
            tree = [self.draw.choice(tree)]
        stopped = []
        for process in tree:  # the root first: it could stop others itself
            try:
                if Process(process.pid).state in "TtZX":
                    continue  # stopped by the test: to go on is for the test to say
                pidfd = os.pidfd_open(process.pid)
                self.stopped.append((pidfd, time.monotonic() + seconds))
                signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
                stopped.append(f"{process.pid} {process.name}")
            except OSError:
                pass  # it has ended
        if stopped:
            self.say(f"stopped for {seconds:.2f} s: {', '.join(stopped)}; test: {' '.join(root.words)}")

    def go_on(self, all_of_them=False):
        now, left = time.monotonic(), []
        for pidfd, when in self.stopped:
            if not all_of_them and now < when:
                left.append((pidfd, when))
                continue
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
            except OSError:
                pass
            os.close(pidfd)
        self.stopped = left

    def take_the_cores(self):
        seconds = between(self.draw)
        cores = sorted(os.sched_getaffinity(0))
        for core in cores:
            self.hogs.append(self.start_hog(core, seconds))
        self.say(f"{len(cores)} cores taken away for {seconds:.2f} s")

    def start_hog(self, core, seconds):
        pid = os.fork()
        if pid:
            return pid
        try:
            end = time.monotonic() + seconds  # it ends by itself, also if nobody is left to kill it
            os.sched_setaffinity(0, {core})
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            except OSError:  # not allowed: then the highest ordinary priority, else many
                try:
                    os.setpriority(os.PRIO_PROCESS, 0, -20)
                except OSError:
                    pass
                for _ in range(15):
                    if os.fork() == 0:
                        break
            while time.monotonic() < end:
                pass
        finally:
            os._exit(0)

    def bury(self):
        while self.hogs:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.hogs.remove(pid)

    def run(self):
        next_stop, next_cores = START + 1, START + 2
        while True:
            now = time.monotonic()
            if now >= next_stop:
                self.stop_a_test()
                next_stop = time.monotonic() + self.draw.uniform(0.5, 4)
            if now >= next_cores:
                self.take_the_cores()
                next_cores = time.monotonic() + self.draw.uniform(3, 9)
            self.go_on()
            self.bury()
            events = [next_stop, next_cores, *(when for _, when in self.stopped)]
            if select.select([0], [], [], max(0.0, min(events) - time.monotonic()))[0]:
                if os.read(0, 100).startswith(b"done"):
                    return True
                return False

    def clean_up(self, kill):
        for pid in self.hogs:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.go_on(all_of_them=True)
        if kill:
            for pid in under(self.token):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass


def main():
    token, seed, log = sys.argv[1:]
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(51))  # before its own busy loops
    except OSError:
        pass
    disturber = Disturber(token, int(seed), log)

    def leave(*_):
        raise SystemExit(1)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    good = False
    try:
        good = disturber.run()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        disturber.clean_up(kill=not good)


main()
