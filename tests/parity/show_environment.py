"""Writes this rank's environment to FOLDER/rank<R>.json: show_environment.py FOLDER."""

import json
import os
import sys

with open(f"{sys.argv[1]}/rank{os.environ['RANK']}.json", "w") as file:
    json.dump(dict(os.environ), file)
