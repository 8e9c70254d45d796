"""Names of the files in and next to a run's folder.

Both the code that writes the files and the code that reads the files import the names from this
module.
"""

import re
from pathlib import Path

SUPERSEDED = "superseded"
"""Name of the folder for unfinished attempts, next to the runs of a job. Reports skip this
folder.
"""

STUDY_FILES = "study-*.json"
"""Pattern of the files that describe a study in the folder of its jobs. The files contain the
study's table and its cells, including cells that could not run (docs/how-to/run_a_study.md).
"""

COMMANDS_FILE = "commands.json"
"""Name of the file that lists the commands that wrote into an output folder. `resume=true
output=FOLDER` reads this file.
"""

RUN_FILE = "run.json"
"""Name of the file with the specification of a run. The controller writes this file before the run
starts.
"""
STATUS_FILE = "status.json"
"""Name of the file that records how a run ended. Only the controller writes this file."""
_BEAT = re.compile(r"\.worker-\d+\.json")


def safe_name(text: str) -> str:
    """Return `text` as a file name of letters, digits, and `_.=+-`.

    The file name has no leading dot. Letters of any script are kept.
    """
    return re.sub(r"[^\w.=+-]+", "_", text).strip("._") or "_"


def machine_folder(folder: Path, name: str, machines: int) -> Path:
    """Return the folder for a machine's files (topology, telemetry).

    Args:
        folder: Folder of the run.
        name: Name of the machine.
        machines: Number of machines in the run.

    Returns:
        For a single machine, the folder of the run. For several machines, a subfolder with the
        machine's name.
    """
    return folder if machines == 1 else folder / safe_name(name)


def heartbeat_path(folder: Path, process: int) -> Path:
    """Return the path of a worker's heartbeat file.

    Args:
        folder: Folder of the run.
        process: Rank of the worker.
    """
    return folder / f".worker-{process}.json"


def is_beat(name: str) -> bool:
    """Check whether a file is a heartbeat file, by its name."""
    return _BEAT.fullmatch(name) is not None


def is_temporary(name: str) -> bool:
    """Check whether a file is a temporary file of `suite.common.runspec.write_atomically`."""
    return name.startswith(".") and name.endswith(".tmp")
