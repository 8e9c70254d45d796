"""Taking up an interrupted sweep: which runs are finished, which are missing, and where unfinished attempts go.

A run is finished when it came to its own end: the target reached, or missed after the last allowed epoch. Everything else
(interrupted, died, hung, out of memory, failed, or cut off with the controller) is missing and is run again. What was
written by such an attempt is kept, in `superseded/` beside the runs; reports leave that folder out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from suite.common.run_folder import SUPERSEDED
from suite.common.runspec import RunSpec, read_run
from workloads import files
from workloads.api import Settings, field_names

FINISHED = ("success", "target_missed")


def identity(run: RunSpec) -> str:
    """Hash of what a run computes: settings without seed and paths, and the data's fingerprint."""
    every = asdict(run.settings)
    settings = {name: every[name] for name in field_names(Settings, resume=True)}
    settings["options"] = {name: value for name, value in settings["options"].items() if name != "backbone_weights"}
    text = json.dumps([settings, run.facts.fingerprint], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def finished_status(folder: Path, run: RunSpec) -> str:
    """How the run in `folder` ended if it is finished, has its log and computed what `run` would; empty if it must be run.

    Raises ValueError if the folder holds a run of other settings.
    """
    try:
        earlier, filed = read_run(folder / "run.json"), files.read_json(folder / "status.json")
    except (FileNotFoundError, json.JSONDecodeError):
        return ""
    status = str(filed.get("status")) if isinstance(filed, dict) else ""
    try:
        alike = identity(earlier) == identity(run)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{folder / 'run.json'} describes no run ({error}); type another output=FOLDER") from None
    if not alike:
        raise ValueError(
            f"{folder} holds a run of other settings or data; resume with the same command, or another output"
        )
    return status if status in FINISHED and (folder / f"result_{run.run_index}.txt").is_file() else ""


def set_aside(folder: Path) -> Path:
    """Move what an unfinished attempt left to `superseded/`; returns its new place."""
    place = folder.parent / SUPERSEDED
    place.mkdir(exist_ok=True)
    number = 1
    while (place / f"{folder.name}-{number}").exists():
        number += 1
    return folder.rename(place / f"{folder.name}-{number}")
