"""The memory of this process, as process_status.h reads it."""

from pathlib import Path


def status_mib(field):
    """A field of /proc/self/status in MiB: VmRSS, VmHWM (its peak), ...."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))
