"""Read and write the checkpoints of a run, `checkpoint_STEP.npz`.

The user documentation of checkpoints is docs/how-to/resume_and_checkpoints.md.

A checkpoint file contains all data that are needed to resume the run. The file has an array
`state/NAME` for each array of `Trainer.state`. Three further byte arrays contain the state of the
training loop as JSON (`loop`), the log up to the checkpoint (`log`), and the lines of metrics.jsonl
(`metrics`). The file is a zip archive with a checksum for each array. A partially written file is
detected because the archive's end record is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suite.common.loop_state import LoopState
from workloads import files

if TYPE_CHECKING:
    from workloads.api import Arrays

KEPT = 2
"""Number of checkpoints to keep.

With two checkpoint files, at least one file is complete even if the process is killed while it
writes a checkpoint.
"""
MEMBERS = ("loop", "log", "metrics")
WEIGHTS = "weights.npz"
"""Name of the file with the trained weights, which `checkpoint.final=true` writes."""
_STATE = "state/"
_NAME = re.compile(r"checkpoint_(\d{1,18})\.npz")


@dataclass(frozen=True)
class Checkpoint:
    """State of a run after a given number of steps."""

    step: int
    state: Arrays
    """Arrays of the trainer's state. The arrays are equal on all ranks."""
    loop: LoopState
    log: bytes
    """Lines of the run's log up to the checkpoint."""
    metrics: bytes
    """Lines of metrics.jsonl up to the checkpoint."""


def step_of(path: Path) -> int:
    """Return the number of steps in the file name of a checkpoint.

    The function returns -1 for the name of any other file.
    """
    name = _NAME.fullmatch(path.name)
    return int(name[1]) if name else -1


def found(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, sorted from the newest to the oldest."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(
            (path for path in folder.iterdir() if step_of(path) >= 0), key=step_of, reverse=True
        )
    return []


def prune(folder: Path) -> None:
    """Delete all checkpoints in a folder except the newest `KEPT`."""
    for path in found(folder)[KEPT:]:
        path.unlink(missing_ok=True)


def write(folder: Path, checkpoint: Checkpoint) -> int:
    """Write a checkpoint, and delete all but the newest `KEPT` checkpoints in the folder.

    Args:
        folder: Folder of the run.
        checkpoint: The checkpoint.

    Returns:
        Size of the file in bytes.

    Raises:
        OSError: The file cannot be written.
    """
    import numpy as np

    parts = (json.dumps(checkpoint.loop.to_json()).encode(), checkpoint.log, checkpoint.metrics)
    bytes_of = {
        name: np.frombuffer(part, np.uint8) for name, part in zip(MEMBERS, parts, strict=True)
    }
    state = {_STATE + name: array for name, array in checkpoint.state.items()}
    size = write_arrays(folder / f"checkpoint_{checkpoint.step}.npz", {**bytes_of, **state})
    prune(folder)
    return size


def write_arrays(path: Path, arrays: Arrays) -> int:
    """Write arrays atomically to an `.npz` file.

    Args:
        path: Path of the `.npz` file. An existing file is replaced.
        arrays: The arrays by name.

    Returns:
        Size of the file in bytes.

    Raises:
        OSError: The file cannot be written. An existing file remains unchanged.
    """
    import numpy as np

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]  # newer NumPy stubs have the keyword `allow_pickle: bool`
            stream.flush()
            os.fsync(stream.fileno())
            size = stream.tell()
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return size


def damage(path: Path) -> str:
    """Return the reason why a run cannot resume from a checkpoint file.

    The string is empty if the checkpoint file is complete and undamaged.
    """
    try:
        with files.open_stream(path) as stream, zipfile.ZipFile(stream) as archive:
            stored = all(
                member.compress_type == zipfile.ZIP_STORED for member in archive.infolist()
            )
            missing = [name for name in MEMBERS if f"{name}.npy" not in archive.namelist()]
            damaged = archive.testzip() if stored else None
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, EOFError) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    if not stored:
        return "it has compressed members"
    if damaged:
        return f"its member {damaged} is damaged"
    return f"its member {missing[0]} is missing" if missing else ""


def read(path: Path, with_state: bool = True) -> Checkpoint:
    """Return the checkpoint in a file.

    Args:
        path: The file.
        with_state: Read the arrays of the trainer's state, which may be large. If False,
            `Checkpoint.state` is empty.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a valid checkpoint.
    """
    import numpy as np

    with files.open_stream(path) as stream, np.load(stream, allow_pickle=False) as archive:
        names = [name for name in archive.files if with_state and name.startswith(_STATE)]
        state = {name.removeprefix(_STATE): archive[name] for name in names}
        loop, log, metrics = (archive[name].tobytes() for name in MEMBERS)
    return Checkpoint(step_of(path), state, LoopState.from_json(json.loads(loop)), log, metrics)
