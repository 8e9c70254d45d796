"""The folder for all temporary files of a run on one machine. Standard library only: agents use it too.

It ends with the run, or, if its holder was killed, with the next run's beginning (`workloads.held_folder`).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from suite.common.paths import real_path
from suite.common.run_folder import RUN_FILE
from workloads import files
from workloads.held_folder import MARKER as MARKER
from workloads.held_folder import HeldFolder, names_itself

PREFIX = "suite-run-"


class Scratch(HeldFolder):
    """A folder below TMPDIR that exists as long as it is held.

    No file is left at its end, but of a run that somebody keeps there.
    """

    def __init__(self) -> None:
        """Make it, once those that killed holders left are removed."""
        super().__init__(Path(tempfile.gettempdir()), PREFIX, _keeps_a_run)


def scratch_above(path: Path) -> Path | None:
    """Return the folder of temporary files that `path` is or lies in, which ends with its run; None: it lies in none.

    A link that leads back to itself is taken as it stands.
    """
    path = real_path(path)
    return next((folder for folder in (path, *path.parents) if names_itself(folder)), None)


def _keeps_a_run(folder: Path) -> bool:
    """Return True if the folder contains results. An agent's copy of run.json that names this same folder does not count."""
    for place, _, names in os.walk(folder):
        if RUN_FILE not in names:
            continue
        try:
            run = files.read_json(Path(place, RUN_FILE))
        except (OSError, ValueError):
            return True
        if not isinstance(run, dict) or run.get("folder") != place:
            return True
    return False
