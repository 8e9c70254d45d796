"""Run inside a framework's environment: computes what tests ask for, one job after another, until its input ends.

    python serve.py < JOBS

A line of standard input is a job as JSON: `function` (`module.name`, below `tests`), `arguments` and `out`. The function gives
arrays by name, which are written to `out` (.npz); instead of it an `out` with the suffix `.error` tells what went wrong.
"""

import importlib
import json
import sys
import traceback
from pathlib import Path

import numpy as np


def compute(function, arguments, out):
    """One job; its file appears whole."""
    written = out.with_suffix(".part")
    try:
        module, _, name = function.rpartition(".")
        found = getattr(importlib.import_module(f"tests.{module}"), name)(*arguments)
        with written.open("wb") as file:
            np.savez(file, **found)
    except Exception:
        written.write_text(traceback.format_exc())
        out = out.with_suffix(".error")
    written.rename(out)


def main():
    for line in sys.stdin:
        job = json.loads(line)
        compute(job["function"], job["arguments"], Path(job["out"]))


if __name__ == "__main__":
    main()
