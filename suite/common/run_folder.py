"""Names of the files in a run's folder and next to it, which writers and readers share."""

import re
from pathlib import Path

SUPERSEDED = "superseded"
"""Folder next to the runs of a job, which holds unfinished attempts. Reports skip it."""

STUDY_FILES = "study-*.json"
"""Files in the folder of a study's jobs: its cells, including cells that could not run, and its
table (docs/how-to/run_a_study.md).
"""

COMMANDS_FILE = "commands.json"
"""File in an output folder with the commands that wrote into the folder, for
`resume=true output=FOLDER`.
"""

RUN_FILE = "run.json"
"""File with the specification of a run. The controller writes it before the run starts."""
STATUS_FILE = "status.json"
"""File with the end of a run. Only the controller writes it."""
_BEAT = re.compile(r"\.worker-\d+\.json")


def safe_name(text: str) -> str:
    """Return `text` as a path component of letters, digits, and `_.=+-`, without a leading dot.

    Letters of any script are kept.
    """
    return re.sub(r"[^\w.=+-]+", "_", text).strip("._") or "_"


def machine_folder(folder: Path, name: str, machines: int) -> Path:
    """Return the folder for the records of a machine (topology, telemetry).

    Args:
        folder: Folder of the run.
        name: Name of the machine.
        machines: Number of machines of the run.

    Returns:
        The folder of the run if it has a single machine, or else a subfolder with the name of the
        machine.
    """
    return folder if machines == 1 else folder / safe_name(name)


def heartbeat_path(folder: Path, process: int) -> Path:
    """Return the path of a worker's heartbeat.

    Args:
        folder: Folder of the run.
        process: Rank of the worker.
    """
    return folder / f".worker-{process}.json"


def is_beat(name: str) -> bool:
    """Check whether a file name is that of a heartbeat (`heartbeat_path`)."""
    return _BEAT.fullmatch(name) is not None


def is_temporary(name: str) -> bool:
    """Check whether `suite.common.runspec.write_atomically` uses this name for a temporary file."""
    return name.startswith(".") and name.endswith(".tmp")
