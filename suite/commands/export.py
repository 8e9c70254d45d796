"""`suite export tensorboard|mlflow|wandb LOGS…`: brings runs into an experiment tracker."""

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
class _Known:
    """A tracker that there is a module for."""

    kind: str
    """Its class in `suite.trackers.NAME`."""
    summary: str
    output: str
    """What `--output` takes, in words."""
    default: str
    variable: str = ""
    """Environment variables, which take precedence over the defaults."""


_TRACKERS: Mapping[str, _Known] = {
    "tensorboard": _Known("TensorBoard", "event files for tensorboard --logdir", "log directory", "tensorboard"),
    "mlflow": _Known(
        "MLflow",
        "runs with parameters, metrics and artifacts",
        "tracking URI: sqlite:///FILE, or a server's address",
        "sqlite:///mlflow.db",
        "MLFLOW_TRACKING_URI",
    ),
    "wandb": _Known(
        "WandB", "offline runs for wandb sync; nothing goes online", "folder above wandb/", ".", "WANDB_DIR"
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the trackers and their options."""
    trackers = parser.add_subparsers(dest="tracker", metavar="|".join(_TRACKERS), required=True)
    for name, known in _TRACKERS.items():
        tracker = trackers.add_parser(name, help=known.summary, description=f"{known.kind}: {known.summary}.")
        add_logs(tracker)
        default = f"${known.variable}, else {known.default}" if known.variable else known.default
        add(tracker, "--output WHERE", f"{known.output} (default: {default})")
        add(tracker, "--follow", f"look again every {FOLLOW_SECONDS:.0f} s until every run has ended, or Ctrl-C")


def run(args: argparse.Namespace) -> int:
    """Export runs, and print the number of new ones. Raises ValueError for a path without a log, or a missing library."""
    known = _TRACKERS[args.tracker]
    in_shell = os.environ.get(known.variable)
    if args.output is not None:
        output, given = args.output, f"--output {args.output}"
    elif in_shell:
        output, given = in_shell, f"{known.variable}={in_shell}"
    else:
        output = known.default
        given = f"--output {output}"
    tracker = _tracker(args.tracker, output, given)
    runs: list[ExportedRun] = []
    left_out = new = 0
    with contextlib.suppress(KeyboardInterrupt) if args.follow else contextlib.nullcontext():
        while True:
            sweeps = args.follow and _a_sweep_goes_on(args.paths)  # first: it may end now
            runs, left_out = _exported(args.paths, sweeps)
            new += sum(_added(tracker, one) for one in runs)
            if not sweeps and not (args.follow and any(one.end_ms is None for one in runs)):
                break
            time.sleep(FOLLOW_SECONDS)
    left = f"; {left_out} left out: not evaluated yet, or copies" if left_out else ""
    print(f"{output}: {len(runs)} runs, {new:,} new scalars{left}")
    return 0


def _tracker(name: str, output: str, given: str) -> Tracker:
    """Return the tracker that writes to `output`.

    Raises:
        ValueError: The output cannot take runs, or the tracker's library is not installed.
    """
    from suite.trackers.stores import check_store

    check_store(name, output, given)
    try:
        module = importlib.import_module(f"suite.trackers.{name}")
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "suite"):
            raise
        requirements = shlex.quote(str(shipped("environments") / f"{name}.txt"))
        command = f"{shlex.quote(sys.executable)} -m pip install -r {requirements}"
        raise ValueError(f"{library} is not installed. Run: {command}") from None
    tracker: Tracker = getattr(module, _TRACKERS[name].kind)(output)
    return tracker


def _exported(paths: Sequence[Path], sweeps: bool) -> tuple[list[ExportedRun], int]:
    """Return the runs that exist so far; none for a sweep that has just begun."""
    from suite.trackers.exported import exported

    try:
        return exported(paths)
    except ValueError:
        if sweeps:
            return [], 0
        raise


def _added(tracker: Tracker, one: ExportedRun) -> int:
    new = tracker.add(one)
    if new:
        state = "goes on" if one.end_ms is None else one.status
        print(clean_lines(f"{one.name}: {new:,} scalars ({state})"), flush=True)
    return new


def _a_sweep_goes_on(paths: Sequence[Path]) -> bool:
    """Check whether a controller of this machine writes into one of the folders, into a parent folder, or a direct child."""
    from suite.common.output_lock import LOCK_FILE, is_held

    places = [path.absolute() for path in paths]
    above = (folder for place in places for folder in (place, *place.parents[:3]))
    return any(map(is_held, (*above, *(lock.parent for place in places for lock in place.glob(f"*/{LOCK_FILE}")))))
