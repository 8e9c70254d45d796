"""Runs in a framework's environment: executes jobs in sequence until its input ends.

    python serve.py BEGUN < JOBS

A line of standard input is a job as JSON: `function` (`module.name`, below `tests`), `arguments`,
`out`, and `variables` of the environment. The function returns arrays by name, which are written to
`out` (.npz). If it fails, a file with the suffix `.error` has the traceback instead. The file BEGUN
is touched when a job starts.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path

import numpy as np


def compute(function, arguments, out):
    """Run a job. Its file appears only when it is complete."""
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


def keep_strategy():
    """Use a single strategy during the life of the process.

    Collectives of a second strategy would use the same numbers as the first strategy's.
    """
    import tensorflow as tf

    join, joined = tf.distribute.MultiWorkerMirroredStrategy, []

    def kept(**options):
        joined.extend([] if joined else [join(**options)])
        return joined[0]

    tf.distribute.MultiWorkerMirroredStrategy = kept


def main():
    if "TF_CONFIG" in os.environ:
        keep_strategy()
    for line in sys.stdin:
        job = json.loads(line)
        Path(sys.argv[1]).touch()
        os.environ.update(job["variables"])
        compute(job["function"], job["arguments"], Path(job["out"]))


if __name__ == "__main__":
    main()
