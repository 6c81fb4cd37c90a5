"""What measurements of compiling have in common: the compiler's own words, and the processor time of a process."""
import os
import pathlib
import shlex


def compiler_words(entry):
    """Compiler and arguments of an entry of compile_commands.json, behind the cache or launcher that CMake puts before them."""
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if pathlib.Path(word).name.startswith(("c++", "g++", "clang++")))
    return words[start:]


def processor_seconds(words, folder):
    """User and system time of a command, run in a folder; ends this program where it fails."""
    pid = os.posix_spawnp("env", ["env", "-C", str(folder), *map(str, words)], os.environ,
                          file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"this failed: {shlex.join(map(str, words))}")
    return usage.ru_utime + usage.ru_stime
