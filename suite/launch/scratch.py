"""Folder for all temporary files of a run on one machine.

The folder is removed at the end of the run. If the run's process was killed, the next run removes
the folder (`workloads.held_folder`). This module imports only the standard library.
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
    """A folder in TMPDIR that exists as long as a process locks the folder.

    When no process locks the folder, the folder is removed with all its files, unless a user keeps
    a run in the folder.
    """

    def __init__(self) -> None:
        """Create a scratch folder, and remove the scratch folders of killed processes."""
        super().__init__(Path(tempfile.gettempdir()), PREFIX, _keeps_a_run)


def scratch_above(path: Path) -> Path | None:
    """Return the scratch folder that equals or contains `path`, or None.

    All files in a scratch folder are removed at the end of a run. A symbolic link to itself is not
    resolved.
    """
    path = real_path(path)
    return next((folder for folder in (path, *path.parents) if names_itself(folder)), None)


def _keeps_a_run(folder: Path) -> bool:
    """Return True if the folder contains results of a run.

    An agent's copy of run.json, which names the scratch folder itself, is not a result.
    """
    for directory, _, names in os.walk(folder):
        if RUN_FILE not in names:
            continue
        try:
            run = files.read_json(Path(directory, RUN_FILE))
        except (OSError, ValueError):
            return True
        if not isinstance(run, dict) or run.get("folder") != directory:
            return True
    return False
