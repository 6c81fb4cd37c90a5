"""Runs one command to its end and says what it used: CPU seconds of the whole job, peak memory of its ranks."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

PERIOD = 0.1  # seconds between two looks at the ranks' memory


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:  # the process ended between two looks
        return b""


def parents():
    tree = {}
    for folder in os.listdir("/proc"):
        fields = read(f"/proc/{folder}/stat").rpartition(b")")[2].split() if folder.isdigit() else []
        if len(fields) > 1:
            tree[int(folder)] = int(fields[1])
    return tree


def descendants(root):
    tree, found = parents(), {root}
    while more := {pid for pid, parent in tree.items() if parent in found} - found:
        found |= more
    return found


class Memory:
    """The most that each rank held, by looking every PERIOD: resident set (the kernel's own high-water mark) and, of it,
    the part that no file backs (at the time of a look)."""

    def __init__(self, root, ranks):
        self.root, self.ranks, self.peak, self.done = root, ranks, {}, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.done.wait(PERIOD):
            for pid in self.peak if len(self.peak) == self.ranks else descendants(self.root):
                self.look(pid)

    def look(self, pid):
        # A rank under a launcher has RANK; alone, the rank is the command itself.
        if pid not in self.peak and self.ranks > 1 and b"\0RANK=" not in b"\0" + read(f"/proc/{pid}/environ"):
            return
        status = dict(line.split(b":", 1) for line in read(f"/proc/{pid}/status").splitlines() if b":" in line)
        if b"VmHWM" in status:
            resident, own = (int(status[key].split()[0]) / 1024 for key in (b"VmHWM", b"RssAnon"))
            before = self.peak.get(pid, (0, 0))
            self.peak[pid] = (max(resident, before[0]), max(own, before[1]))

    def stop(self):
        self.done.set()
        self.thread.join()
        return [sum(peak[part] for peak in self.peak.values()) for part in range(2)]


def run(command, folder, threads, ranks):
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(Path(folder, "output.txt"), "w+") as output:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        memory = Memory(process.pid, ranks)
        code = process.wait()
        resident, own = memory.stop()
        output.seek(0)
        if code != 0:
            sys.exit(f"train: {' '.join(map(str, command))} ended with {code}:\n{output.read()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if len(memory.peak) != ranks:
        sys.exit(f"train: {len(memory.peak)} ranks seen instead of {ranks}")
    return {"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "resident": resident, "own": own}
