#!/usr/bin/env python3
"""Installs a build, moves the installation to another folder, and builds and runs a user's project on it.

    consume.py BUILD [--without-torch]     works in BUILD/consume, which it makes anew
    consume.py BUILD --part components     only that: the program alone, and the libraries alone; or `unbuilt`
    consume.py --prefix PREFIX             only the project, on a Muster that is installed there

The project is configured first on the prefix as it was installed (torch-free part), then on the moved one (both parts):
whatever names the first folder fails there.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import compiler_cache

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def headers_are_complete(prefix):
    """No installed header may ask for one that is not installed, or for one outside muster/."""
    headers = sorted((prefix / "include/muster").rglob("*.h"))
    faults = [f"{header.relative_to(prefix)} includes {name}, which is not installed"
              for header in headers for name in INCLUDE.findall(header.read_text()) if not (prefix / "include" / name).is_file()]
    if faults or len(headers) < 10:
        sys.exit("\n".join(faults or [f"only {len(headers)} headers in {prefix}"]))


def nothing_names(folder, prefix):
    """Neither the CMake package nor a program may hold the path of the folder they were installed to first."""
    for file in sorted(path for path in prefix.rglob("*") if path.is_file()):
        if str(folder).encode() in file.read_bytes():
            sys.exit(f"{file.relative_to(prefix)} holds the path {folder}")


LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages_are_complete(prefix):
    """Every relative link of an installed page leads to an installed file; completions and manual pages are there."""
    pages = sorted((prefix / "share/doc").rglob("*.md"))
    faults = []
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        faults += [f"{page.relative_to(prefix)}: {target} is not installed" for target in LINK.findall(text)
                   if not re.match(r"[a-z]+:|#", target) and not (page.parent / target.partition("#")[0]).exists()]
    share = prefix / "share"
    for file in [share / "bash-completion/completions/muster", share / "zsh/vendor-completions/_muster",
                 share / "fish/vendor_completions.d/muster.fish", share / "man/man1/muster.1", share / "man/man1/muster-train.1"]:
        if not file.is_file() or "--" not in file.read_text().replace("\\-", "-"):
            faults.append(f"{file.relative_to(prefix)} is missing or empty")
    if faults or len(pages) < 10:
        sys.exit("\n".join(faults or [f"only {len(pages)} pages in {prefix}"]))
    if groff := shutil.which("groff"):
        for page in sorted((share / "man/man1").glob("*.1")):
            said = subprocess.run([groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-z", page], capture_output=True, text=True, check=False)
            if said.returncode or said.stderr:
                sys.exit(f"{page.name}: {said.stderr}")


def consume(prefix, work, with_torch):
    run("cmake", "-S", HERE, "-B", work, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DWITH_TORCH={'ON' if with_torch else 'OFF'}",
        *compiler_cache.flags())
    run("cmake", "--build", work, env=compiler_cache.environment())
    for program in ["torch_free", "two_ranks"] if with_torch else ["torch_free"]:
        with tempfile.TemporaryDirectory(dir=work) as folder:
            print(run(work / program, folder, timeout=60), end="")


def refusals(work):
    """Configuring anew, with the compiler already known: each must fail with a text that helps."""
    for flags, expected in [(["-DEXTRA_ROOM=tunes"], 'no room "tunes"'),
                            (["-DEXTRA_ROOM=data", f"-DMUSTER_TORCH_DIR={work}"], "set MUSTER_TORCH_DIR")]:
        done = subprocess.run(["cmake", *flags, "."], cwd=work, capture_output=True, text=True)
        if done.returncode == 0 or expected not in done.stderr:
            sys.exit(f"cmake {flags}: expected a refusal with {expected!r}, got {done.returncode}\n{done.stderr}")


def unbuilt(work):
    """A build tree in which nothing is built: each component is refused before a file is written, with the way out."""
    run("cmake", "-S", HERE.parents[1], "-B", work, "-G", "Ninja", "-DMUSTER_WITH_TORCH=OFF", "-DMUSTER_TESTS=OFF")
    (work / "bin").mkdir(exist_ok=True)
    for built, component, missing, way in [([], None, "muster, libmuster_base.a", "cmake --build"),
                                           (["bin/muster"], None, "built: libmuster_base.a", "--component program"),
                                           (["bin/muster"], "dev", "libmuster_tune.a", "--target libraries")]:
        for file in built:
            (work / file).touch()
        prefix = work / "prefix"
        done = subprocess.run(["cmake", "--install", work, "--prefix", prefix, *(["--component", component] if component else [])],
                              capture_output=True, text=True)
        words = " ".join(done.stderr.split())
        if done.returncode == 0 or missing not in words or way not in words or prefix.exists():
            sys.exit(f"cmake --install of {component or 'all'} with {built}: expected a refusal with {missing!r} and {way!r} and no "
                     f"{prefix}, got {done.returncode}\n{done.stderr}")


def components(build, prefix):
    """The program alone, and the libraries alone: neither needs the other."""
    run("cmake", "--install", build, "--prefix", prefix / "program", "--component", "program")
    print(run(prefix / "program/bin/muster", "--version"), end="")
    run("cmake", "--install", build, "--prefix", prefix / "dev", "--component", "dev")
    if (prefix / "dev/bin").exists() or not list((prefix / "dev").rglob("musterConfig.cmake")):
        sys.exit("component dev: expected libraries and the CMake package, and no program")
    headers_are_complete(prefix / "dev")
    consume(prefix / "dev", prefix / "build-dev", with_torch=False)
    if not list((prefix / "dev").rglob("libmuster_tune.a")) or list((prefix / "program").rglob("*.a")):
        sys.exit("libraries belong to component dev")


PARTS = ["components", "unbuilt"]


def check_part(build, part):
    work = build / "consume" / part
    shutil.rmtree(work, ignore_errors=True)
    if part == "components":
        components(build, work)
    else:
        unbuilt(work)


def check_build(build, with_torch):
    work = build / "consume"
    shutil.rmtree(work, ignore_errors=True)
    first, moved = work / "first place", work / "second place"
    run("cmake", "--install", build, "--prefix", first)
    headers_are_complete(first)
    pages_are_complete(first)
    consume(first, work / "build-first", with_torch=False)
    first.rename(moved)
    nothing_names(first, moved)
    consume(moved, work / "build-moved", with_torch)
    print(run(moved / "bin/muster", "--version"), end="")
    if with_torch:  # muster finds its sibling, and that one LibTorch
        run(moved / "bin/muster", "list", "models", "--json")
        refusals(work / "build-moved")
    shutil.rmtree(moved)
    for part in PARTS:
        check_part(build, part)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--prefix", type=pathlib.Path)
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--part", choices=PARTS)
    args = parser.parse_args()
    if (args.build is None) == (args.prefix is None):
        parser.error("give BUILD or --prefix PREFIX")
    if args.part and args.prefix:
        parser.error("--part is of a BUILD")
    if args.part:
        check_part(args.build.resolve(), args.part)
    elif args.prefix:
        with tempfile.TemporaryDirectory() as work:
            consume(args.prefix, pathlib.Path(work), not args.without_torch)
    else:
        check_build(args.build.resolve(), not args.without_torch)


main()
