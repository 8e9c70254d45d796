"""Taking up an interrupted sweep: which runs are finished, which are missing, and where unfinished attempts go.

A run is finished when it came to its own end: the target reached, or missed after the last allowed epoch. Everything else
(interrupted, died, hung, out of memory, failed, or cut off with the controller) is missing and is run again. What was
written by such an attempt is kept, in `superseded/` beside the runs; reports leave that folder out.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from suite.common.run_folder import SUPERSEDED
from suite.common.runspec import RunSpec, read_run
from workloads.api import Settings, field_names

FINISHED = ("success", "target_missed")


def identity(run: RunSpec) -> str:
    """Hash of what a run computes: settings without seed and paths, and the data's fingerprint."""
    settings = {name: asdict(run.settings)[name] for name in field_names(Settings, resume=True)}
    settings["options"] = {name: value for name, value in settings["options"].items() if name != "backbone_weights"}
    text = json.dumps([settings, run.facts.fingerprint], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def finished_status(folder: Path, run: RunSpec) -> str:
    """How the run in `folder` ended if it is finished and computed what `run` would; empty if it must be run.

    Raises ValueError if the folder holds a run of other settings.
    """
    try:
        earlier = read_run(folder / "run.json")
        status = str(json.loads((folder / "status.json").read_text(encoding="utf-8")).get("status"))
    except (FileNotFoundError, json.JSONDecodeError):
        return ""
    if identity(earlier) != identity(run):
        raise ValueError(
            f"{folder} holds a run of other settings or data; resume with the same command, or another output"
        )
    return status if status in FINISHED else ""


def set_aside(folder: Path) -> Path:
    """Move what an unfinished attempt left to `superseded/`; returns its new place."""
    place = folder.parent / SUPERSEDED
    place.mkdir(exist_ok=True)
    number = 1
    while (place / f"{folder.name}-{number}").exists():
        number += 1
    return folder.rename(place / f"{folder.name}-{number}")


@contextlib.contextmanager
def claimed(output: Path) -> Iterator[None]:
    """Hold the output folder against other controllers, for as long as this process lives.

    Raises ValueError if another one writes into it now.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / ".lock"
    descriptor = _lock(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(path: Path) -> int:
    """Descriptor of the locked file; tries again if its last holder has just removed it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(
                f"{path.parent}: another run_suite.py writes into it now; wait for it, or type another output=FOLDER"
            ) from None
        os.close(descriptor)
