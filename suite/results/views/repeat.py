"""Commands to run next: one that repeats a run with the words in its `run.json`, one that resumes interrupted runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from suite.common.run_folder import RUN_FILE
from suite.results.columns import OURS, Result, RunRow
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean

RESUMABLE = ("interrupted", "hung", "rank_died")
"""Status of a run that ended early for a reason outside of it."""
_OF_ONE_COMMAND = ("gpus", "output", "resume", "runs")


def next_commands(row: Result) -> tuple[str, ...]:
    """What repeats a result of ours on twice as many devices, quoted; empty where nobody knows what was typed."""
    typed = json_object(Path(row.attempts[0].path).parent / "run.json").get("typed") if row.round == OURS else None
    if not isinstance(typed, list) or not row.devices:
        return ()
    words = [clean(str(word), 1000) for word in typed]
    kept = [word for word in words if word.partition("=")[0] not in _OF_ONE_COMMAND]
    return (f"python run_suite.py {shlex.join([*kept, f'gpus={2 * row.devices}'])}",)


def resuming_commands(runs: Sequence[RunRow]) -> tuple[str, ...]:
    """Return the sentence and the command that resume the interrupted ones among `runs`, for each output folder."""
    folders = dict.fromkeys(
        Path(row.path).absolute().parents[1 if Path(row.path).is_dir() else 2]
        for row in runs
        if row.status in RESUMABLE and _is_run_of_the_suite(Path(row.path))
    )
    commands = [f"python run_suite.py {shlex.join(['resume=true', f'output={folder}'])}" for folder in folders]
    return tuple(f"To resume the interrupted runs, run: {clean(command, 1000)}" for command in commands)


def _is_run_of_the_suite(path: Path) -> bool:
    return ((path if path.is_dir() else path.parent) / RUN_FILE).is_file()
