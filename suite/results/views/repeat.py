"""What to type next: the command that repeats a run, as its `run.json` says that it was typed."""

from __future__ import annotations

import shlex
from pathlib import Path

from suite.results.columns import OURS, Result
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean

_OF_ONE_COMMAND = ("gpus", "output", "resume", "runs")


def next_commands(row: Result) -> tuple[str, ...]:
    """What repeats a result of ours on twice as many devices, quoted; empty where nobody knows what was typed."""
    typed = json_object(Path(row.attempts[0].path).parent / "run.json").get("typed") if row.round == OURS else None
    if not isinstance(typed, list) or not row.devices:
        return ()
    words = [clean(str(word), 1000) for word in typed]
    kept = [word for word in words if word.partition("=")[0] not in _OF_ONE_COMMAND]
    return (f"python run_suite.py {shlex.join([*kept, f'gpus={2 * row.devices}'])}",)
