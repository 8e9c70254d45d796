"""What lies in a run's folder and beside it, under names that writers and readers share."""

import re
from pathlib import Path

SUPERSEDED = "superseded"
"""Folder beside the runs of a job that keeps unfinished attempts; reports leave it out."""

STUDY_FILES = "study-*.json"
"""In the folder of a study's jobs: its cells, also those that could not run, and what its table holds (docs/studies.md)."""

COMMANDS_FILE = "commands.json"
"""In an output folder: the commands that wrote into it, for `resume=true output=FOLDER`."""

RUN_FILE = "run.json"
"""What a run is: written before it starts, by the controller."""
STATUS_FILE = "status.json"
"""How it ended: written by the controller alone."""
OPEN_REASONS = "open_reasons"
"""Key of status.json for the reasons for division open that were found during the run."""
_BEAT = re.compile(r"\.worker-\d+\.json")


def safe_name(text: str) -> str:
    """`text` as one path component: letters of any script, digits and `_.=+-`; no separators, no leading dot."""
    return re.sub(r"[^\w.=+-]+", "_", text).strip("._") or "_"


def machine_folder(folder: Path, name: str, machines: int) -> Path:
    """Where a run's folder keeps what one of its machines says of itself (topology, telemetry): a folder of its name."""
    return folder if machines == 1 else folder / safe_name(name)


def heartbeat_path(folder: Path, process: int) -> Path:
    """Where worker `process` of the run in `folder` writes its newest state."""
    return folder / f".worker-{process}.json"


def is_beat(name: str) -> bool:
    """True for a name that `heartbeat_path` gives."""
    return _BEAT.fullmatch(name) is not None


def is_temporary(name: str) -> bool:
    """True for a file that is about to replace another (`suite.common.runspec.write_atomically`)."""
    return name.startswith(".") and name.endswith(".tmp")
