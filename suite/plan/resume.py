"""Taking up an interrupted sweep: which runs are finished, which are missing, and where unfinished attempts go.

An attempt that left a checkpoint is gone on from: the run of its seed, from there.

A run is finished when it came to its own end: the target reached, or missed after the last allowed epoch. Everything else
(interrupted, died, hung, out of memory, failed, or cut off with the controller) is missing and is run again. What was
written by such an attempt is kept, in `superseded/` beside the runs; reports leave that folder out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from suite.common import checkpoints
from suite.common.run_folder import STATUS_FILE, SUPERSEDED
from suite.common.runspec import RunSpec, read_run
from workloads import files
from workloads.api import Settings, field_names

FINISHED = ("success", "target_missed")
CONTINUED = "continued"
"""Label of a run that went on from a checkpoint, and why it is an open one."""
_OF_ONE_LOG = ("device_name", "framework_version")
"""What the beginning of a log says of the whole run."""


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


def going_on(run: RunSpec, folder: Path, say: Callable[[str], object]) -> tuple[RunSpec, Path] | None:
    """The run in `folder` as it goes on from the last whole checkpoint of its unfinished attempts, and that file; None without
    one. `say` is told why a newer one is not taken. Older ones than the last two are deleted."""
    attempts = (folder.parent / SUPERSEDED).glob(f"{folder.name}-*")
    every = [path for attempt in attempts for path in checkpoints.found(attempt)]
    every.sort(key=lambda path: (checkpoints.step_of(path), path.stat().st_mtime), reverse=True)
    for path in every:
        why = _why_not(path, run) or checkpoints.damage(path)
        if not why:
            for old in every[every.index(path) + checkpoints.KEPT :]:
                old.unlink(missing_ok=True)
            return _continued(run, path), path
        say(f"{path} is not gone on from: {why}")
    return None


def _why_not(path: Path, run: RunSpec) -> str:
    """Why the run of a checkpoint is not this one, or would end as it did."""
    try:
        earlier, filed = read_run(path.parent / "run.json"), files.read_json(path.parent / STATUS_FILE)
    except (OSError, ValueError) as error:
        return str(error)
    if identity(earlier) != identity(run):
        return "its run has other settings or data"
    for name in _OF_ONE_LOG:
        if earlier.identity[name] != run.identity[name]:
            return f"its {name} is {earlier.identity[name]}, and here it is {run.identity[name]}"
    return "its run diverged" if str(filed.get("reason")).startswith("Diverged") else ""


def _continued(run: RunSpec, path: Path) -> RunSpec:
    earlier = read_run(path.parent / "run.json")
    stopped_ms = max(file.stat().st_mtime for file in path.parent.iterdir()) * 1e3
    before = int(earlier.continues.get("resumptions", bool(earlier.continues)))
    return replace(
        run,
        settings=replace(run.settings, seed=earlier.settings.seed),
        cache_cleared=earlier.cache_cleared,
        labels=(*run.labels, CONTINUED),
        deviations=(*run.deviations, "it was interrupted, and went on from a checkpoint"),
        division="open",
        continues={"checkpoint": path.name, "stopped_ms": round(stopped_ms), "resumptions": before + 1},
    )
