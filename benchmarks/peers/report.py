"""What every benchmark beside a peer says of its circumstances, and how its table gets into docs/benchmarks.md."""
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What a peer's start costs is measured as users have it: with compiled modules, which the first, untimed turn writes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def load_average(name):
    """The load before our own build; a line on stderr if other programs are running."""
    load = os.getloadavg()[0]
    if load > 0.5 * os.cpu_count():
        print(f"{name}: other programs are running (load average {load:.2f}): times will be worse", file=sys.stderr)
    return load


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores of {cpu[1] if cpu else platform.processor()}, Linux {platform.release()}"


def torch_version():
    return subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                          check=True).stdout.strip()


def seconds_text(values):
    """Median, least and most."""
    return f"{statistics.median(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def write_docs(name, text):
    """Puts `text` between the lines <!-- name: begin --> and <!-- name: end -->."""
    path = ROOT / "docs" / "benchmarks.md"
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = path.read_text()
    if page.count(begin) != 1 or page.count(end) != 1:
        sys.exit(f"{name}: {path} lacks the lines {begin} and {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    temporary = path.with_suffix(".tmp")
    temporary.write_text(f"{before}{begin}\n{text}\n{end}{after}")
    temporary.replace(path)
