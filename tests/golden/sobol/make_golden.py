"""Writes golden.json beside this file: the start of scipy's Sobol sequence, unscrambled, and sums over its first points for each
dimension that Muster has. C++ follows in tests/tune/search/gp/sobol_test.cpp.
"""

import json
from pathlib import Path

import numpy as np
import scipy
from scipy.stats import qmc

DIMENSIONS = 481
points = qmc.Sobol(DIMENSIONS, scramble=False, bits=30).random(256)
# Each digit of a coordinate is in the sum, which is exact: multiples of 2^-30 below 2^16.
sums = points.T @ np.arange(1, 257, dtype=float)
text = json.dumps({"scipy": scipy.__version__, "points": points[:64, :8].tolist(), "weighted_sums": sums.tolist()})
Path(__file__).with_name("golden.json").write_text(text.replace('"weighted_sums"', '\n"weighted_sums"') + "\n")
