"""`suite export tensorboard|mlflow|wandb LOGS…`: export runs to an experiment tracker."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add, add_logs
from suite.common.paths import shipped
from suite.common.terminal import clean_lines

if TYPE_CHECKING:
    from suite.trackers.exported import ExportedRun, Tracker

FOLLOW_SECONDS = 10.0


@dataclass(frozen=True)
class _TrackerChoice:
    """Description of an experiment tracker to which runs can be exported."""

    class_name: str
    """Name of the tracker's class. The class is in the module `suite.trackers.NAME`."""
    summary: str
    output: str
    """Description of the value of `--output` for the help text."""
    default: str
    variable: str = ""
    """Environment variable that overrides the default of `--output`."""


_TRACKERS: Mapping[str, _TrackerChoice] = {
    "tensorboard": _TrackerChoice(
        "TensorBoard", "event files for tensorboard --logdir", "log directory", "tensorboard"
    ),
    "mlflow": _TrackerChoice(
        "MLflow",
        "runs with parameters, metrics, and artifacts",
        "tracking URI: sqlite:///FILE, or the address of a server",
        "sqlite:///mlflow.db",
        "MLFLOW_TRACKING_URI",
    ),
    "wandb": _TrackerChoice(
        "WandB",
        "offline runs for wandb sync, without network access",
        "folder that contains wandb/",
        ".",
        "WANDB_DIR",
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each tracker, with its options."""
    trackers = parser.add_subparsers(dest="tracker", metavar="|".join(_TRACKERS), required=True)
    for name, choice in _TRACKERS.items():
        tracker = trackers.add_parser(
            name, help=choice.summary, description=f"{choice.class_name}: {choice.summary}."
        )
        add_logs(tracker)
        default = (
            f"${choice.variable}, else {choice.default}" if choice.variable else choice.default
        )
        add(tracker, "--output WHERE", f"{choice.output} (default: {default})")
        add(
            tracker,
            "--follow",
            f"export again every {FOLLOW_SECONDS:.0f} s until all runs have ended, or until Ctrl-C",
        )


def run(args: argparse.Namespace) -> int:
    """Export the runs, print the number of new scalars, and return 0.

    Raises:
        ValueError: A path contains no log, the tracker cannot write runs to the output, or the
            tracker's library is not installed.
    """
    choice = _TRACKERS[args.tracker]
    from_environment = os.environ.get(choice.variable)
    if args.output is not None:
        output, setting = args.output, f"--output {args.output}"
    elif from_environment:
        output, setting = from_environment, f"{choice.variable}={from_environment}"
    else:
        output, setting = choice.default, f"--output {choice.default}"
    tracker = _tracker(args.tracker, output, setting)
    runs: list[ExportedRun] = []
    skipped = new_scalars = 0
    with contextlib.suppress(KeyboardInterrupt) if args.follow else contextlib.nullcontext():
        while True:
            # Check whether the sweep is running before its runs are read, because the sweep may end
            # during the read.
            in_sweep = args.follow and _is_sweep_running(args.paths)
            runs, skipped = _read_runs(args.paths, in_sweep)
            new_scalars += sum(_export(tracker, exported_run) for exported_run in runs)
            is_complete = not args.follow or all(
                exported_run.end_ms is not None for exported_run in runs
            )
            if is_complete and not in_sweep:
                break
            time.sleep(FOLLOW_SECONDS)
    skipped_text = f", {skipped} skipped (not evaluated yet, or copies)" if skipped else ""
    print(f"{output}: {len(runs)} runs, {new_scalars:,} new scalars{skipped_text}")
    return 0


def _tracker(name: str, output: str, setting: str) -> Tracker:
    """Return the tracker that writes to `output`.

    `setting` is the name of the option or environment variable that contains `output`. Error
    messages contain this name.

    Raises:
        ValueError: The tracker cannot write runs to `output`, or the tracker's library is not
            installed.
    """
    from suite.trackers.stores import check_store

    check_store(name, output, setting)
    try:
        module = importlib.import_module(f"suite.trackers.{name}")
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "suite"):
            raise
        requirements = shlex.quote(str(shipped("environments") / f"{name}.txt"))
        command = f"{shlex.quote(sys.executable)} -m pip install -r {requirements}"
        raise ValueError(f"{library} is not installed. Run: {command}") from None
    tracker: Tracker = getattr(module, _TRACKERS[name].class_name)(output)
    return tracker


def _read_runs(paths: Sequence[Path], in_sweep: bool) -> tuple[list[ExportedRun], int]:
    """Return the runs to export, and the number of skipped runs.

    With `in_sweep`, an empty folder is not an error, because a sweep that has just started has no
    runs yet.
    """
    from suite.trackers.exported import exported

    try:
        return exported(paths)
    except ValueError:
        if in_sweep:
            return [], 0
        raise


def _export(tracker: Tracker, exported_run: ExportedRun) -> int:
    """Export a run, print the number of its new scalars, and return the number."""
    new_scalars = tracker.add(exported_run)
    if new_scalars:
        state = "running" if exported_run.end_ms is None else exported_run.status
        print(clean_lines(f"{exported_run.name}: {new_scalars:,} scalars ({state})"), flush=True)
    return new_scalars


def _is_sweep_running(paths: Sequence[Path]) -> bool:
    """Check whether a controller on this machine is writing into one of the folders.

    Args:
        paths: The folders. The check includes the direct subfolders of each folder and three levels
            of parent folders.
    """
    from suite.common.output_lock import LOCK_FILE, is_held

    for path in (path.absolute() for path in paths):
        folders = [path, *path.parents[:3], *(lock.parent for lock in path.glob(f"*/{LOCK_FILE}"))]
        if any(map(is_held, folders)):
            return True
    return False
