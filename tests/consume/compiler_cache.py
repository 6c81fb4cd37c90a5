"""A compiler cache for the projects that tests build on an installation; one that another checkout filled serves, too."""
import os
import pathlib
import shutil

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


def flags():
    """For cmake."""
    ccache = shutil.which("ccache")
    return [f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []


def environment():
    """For the build: paths below the checkout are told as relative ones."""
    return {**os.environ, "CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(CHECKOUT)}
