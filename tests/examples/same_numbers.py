#!/usr/bin/env python3
"""The two programs of docs/first-training-program.md must measure the same: same_numbers.py ONE TWO

Losses agree to 1e-3 and accuracies to 2 samples in 1,000. A rank adds up gradients in another order than one device, so
the last digits of float32 differ, and 1,200 steps enlarge that; a wrong average or share of the samples shows in the
second decimal.
"""
import pathlib
import re
import sys

LINE = re.compile(r"epoch (\d+): test loss ([\d.]+), accuracy ([\d.]+)")
one, two = ([tuple(map(float, row)) for row in LINE.findall(pathlib.Path(path).read_text())] for path in sys.argv[1:])
print("one device", one)
print("two ranks ", two)
if not one or len(one) != len(two):
    sys.exit("the programs did not print the same epochs")
for (epoch, loss, accuracy), (other_epoch, other_loss, other_accuracy) in zip(one, two):
    if epoch != other_epoch or abs(loss - other_loss) > 1e-3 or abs(accuracy - other_accuracy) > 2e-3:
        sys.exit(f"epoch {epoch:.0f} differs")
