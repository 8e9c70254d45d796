"""A run's checkpoints: `checkpoint_STEP.npz`, each a file that holds all that is needed to go on (docs/checkpoints.md).

Arrays by name: `state/NAME` as `Trainer.state` gives them, and as bytes what the loop knows (`loop`, JSON), the log up to there
(`log`) and its lines of figures (`metrics`). A zip file has a checksum for each of them, and its end tells whether it is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workloads import files

if TYPE_CHECKING:
    from workloads.api import Arrays, Json

KEPT = 2
"""The last ones: of two that are there, one is whole, whenever its writer is killed."""
MEMBERS = ("loop", "log", "metrics")
WEIGHTS = "weights.npz"
"""Name of the file with the trained weights (`checkpoint.final=true`)."""
_STATE = "state/"
_NAME = re.compile(r"checkpoint_(\d{1,18})\.npz")


@dataclass(frozen=True)
class Checkpoint:
    """What a run knew after some steps."""

    step: int
    state: Arrays
    """The trainer's, the same in every process."""
    loop: Mapping[str, Json]
    """The loop's (suite.worker.loop)."""
    log: bytes
    """The lines of its log so far."""
    metrics: bytes
    """Those of metrics.jsonl."""


def step_of(path: Path) -> int:
    """The steps done at a checkpoint, by its name; -1 for a file that is none."""
    name = _NAME.fullmatch(path.name)
    return int(name[1]) if name else -1


def found(folder: Path) -> list[Path]:
    """A folder's checkpoints, the newest first."""
    with contextlib.suppress(FileNotFoundError):
        return sorted((path for path in folder.iterdir() if step_of(path) >= 0), key=step_of, reverse=True)
    return []


def prune(folder: Path) -> None:
    """Delete all but the last ones."""
    for path in found(folder)[KEPT:]:
        path.unlink(missing_ok=True)


def write(folder: Path, checkpoint: Checkpoint) -> int:
    """Write it, and delete older ones; returns its bytes. Raises OSError."""
    import numpy as np

    parts = (json.dumps(checkpoint.loop).encode(), checkpoint.log, checkpoint.metrics)
    bytes_of = {name: np.frombuffer(part, np.uint8) for name, part in zip(MEMBERS, parts, strict=True)}
    state = {_STATE + name: array for name, array in checkpoint.state.items()}
    size = write_arrays(folder / f"checkpoint_{checkpoint.step}.npz", {**bytes_of, **state})
    prune(folder)
    return size


def write_arrays(path: Path, arrays: Arrays) -> int:
    """Write arrays by their names as a whole or not at all; returns the file's bytes. Raises OSError."""
    import numpy as np

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]  # of a keyword that older ones do not have
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
    """Why a checkpoint cannot be gone on from; empty for one that is whole."""
    try:
        with files.open_stream(path) as stream, zipfile.ZipFile(stream) as archive:
            stored = all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
            missing = [name for name in MEMBERS if f"{name}.npy" not in archive.namelist()]
            wrong = archive.testzip() if stored else "what is compressed"
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, EOFError) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return f"{wrong} in it is damaged" if wrong else f"it holds no {missing[0]}" if missing else ""


def read(path: Path, with_state: bool = True) -> Checkpoint:
    """Raises OSError and ValueError. `with_state`: else without the trainer's, which may be large."""
    import numpy as np

    with files.open_stream(path) as stream, np.load(stream, allow_pickle=False) as archive:
        names = [name for name in archive.files if with_state and name.startswith(_STATE)]
        state = {name.removeprefix(_STATE): archive[name] for name in names}
        loop, log, metrics = (archive[name].tobytes() for name in MEMBERS)
    return Checkpoint(step_of(path), state, json.loads(loop), log, metrics)
