"""Commands that a report suggests to run next.

The commands repeat a result with the settings in its `run.json`, or resume interrupted runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from suite.catalog.former_names import current_run_file
from suite.common.run_folder import RUN_FILE
from suite.results.columns import OURS, Result, Run
from suite.results.logs.recorded_telemetry import json_object
from suite.results.ratios import MINIMUM_RUNS
from suite.results.text import clean

RESUMABLE = ("interrupted", "hung", "rank_died")
"""Statuses of runs that ended early for a reason that is unrelated to the training."""
_REPLACED_KEYS = ("gpus", "output", "resume", "runs")
"""Override keys that a command for a new measurement replaces or resets to their defaults."""


def next_commands(result: Result) -> tuple[str, ...]:
    """Return the command that measures a result of this suite on twice as many devices.

    The tuple is empty if the settings are unknown.
    """
    return _commands(result, f"gpus={2 * result.devices}") if result.devices else ()


def repeating_commands(result: Result) -> tuple[str, ...]:
    """Return the command that repeats a result of this suite to get a confidence interval.

    The tuple is empty if the settings are unknown.
    """
    return (
        _commands(result, f"gpus={result.devices}", f"runs={MINIMUM_RUNS}")
        if result.devices
        else ()
    )


def _commands(result: Result, *overrides: str) -> tuple[str, ...]:
    """Return a command that runs a result's job again with additional overrides.

    The settings are read from the `run.json` of the result. Keys in `_REPLACED_KEYS` are omitted.
    The command is quoted for a shell.
    """
    if result.round != OURS:
        return ()
    overrides_of_run = current_run_file(
        json_object(Path(result.attempts[0].path).parent / "run.json")
    ).get("overrides")
    if not isinstance(overrides_of_run, list):
        return ()
    texts = [clean(str(text), 1000) for text in overrides_of_run]
    kept = [text for text in texts if text.partition("=")[0] not in _REPLACED_KEYS]
    return (f"python run_suite.py {shlex.join([*kept, *overrides])}",)


def resuming_commands(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the command that resumes the runs of each output folder, with explanations."""
    folders = dict.fromkeys(
        Path(run.path).absolute().parents[1 if Path(run.path).is_dir() else 2]
        for run in runs
        if run.status in RESUMABLE and _is_run_of_the_suite(Path(run.path))
    )
    commands = [
        f"python run_suite.py {shlex.join(['resume=true', f'output={folder}'])}"
        for folder in folders
    ]
    return tuple(
        f"To resume the interrupted runs, run: {clean(command, 1000)}" for command in commands
    )


def _is_run_of_the_suite(path: Path) -> bool:
    """Check whether the folder of a log, or the folder `path`, contains a `run.json`."""
    return ((path if path.is_dir() else path.parent) / RUN_FILE).is_file()
