"""Record the commands that write into an output folder.

`resume=true output=FOLDER` without further arguments repeats the recorded commands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.common.run_folder import COMMANDS_FILE, RUN_FILE
from suite.common.runspec import read_run, write_atomically
from workloads import files

_OF_ONE_CALL = ("output", "resume", "dry_run", "--dry-run", "sweep.limit")
"""Command-line keys that do not affect the settings of the runs."""
_NAME_A_WORKLOAD = ("workload", "study", "experiment", "+experiment")


@dataclass(frozen=True)
class SweepCommand:
    """A recorded command line, without the argument that sets the output folder."""

    arguments: tuple[str, ...]
    folder: str
    """Working directory of the command. Relative paths on the command line refer to this
    directory.
    """


def record_command(output: Path, arguments: Sequence[str]) -> None:
    """Add a command to the list of an output folder if the list lacks the command."""
    commands = _recorded(output)
    command = SweepCommand(_without_call(arguments), os.getcwd())
    if _runs_of(command.arguments) in [_runs_of(earlier.arguments) for earlier in commands]:
        return
    listed = [
        {"arguments": list(entry.arguments), "folder": entry.folder}
        for entry in [*commands, command]
    ]
    write_atomically(
        output / COMMANDS_FILE,
        json.dumps({"commands": listed}, indent=1, ensure_ascii=False) + "\n",
    )


def is_recorded(output: Path, arguments: Sequence[str]) -> bool:
    """Check whether the command is already recorded in the output folder."""
    return _runs_of(arguments) in [_runs_of(command.arguments) for command in _recorded(output)]


def commands_to_resume(arguments: Sequence[str]) -> list[SweepCommand]:
    """Return the commands that `resume=true output=FOLDER` without a workload repeats.

    Settings on the command line replace settings of the recorded commands.

    Args:
        arguments: The command line.

    Returns:
        The recorded commands with the replaced settings. The list is empty if the command line sets
        a workload, or does not resume.

    Raises:
        ValueError: No output folder is set, or the folder contains no runs.
    """
    overrides = {
        text.partition("=")[0]: text.partition("=")[2] for text in arguments if "=" in text
    }
    names_its_runs = bool(set(_NAME_A_WORKLOAD) & set(overrides))
    if (
        overrides.get("resume", "").lower() != "true"
        or names_its_runs
        or {"--help", "-h"} & set(arguments)
    ):
        return []
    folder = overrides.get("output", "").strip("'\"")
    if not folder.strip():
        raise ValueError(
            "resume=true: no output folder is set. Set output=FOLDER to the folder of the sweep to"
            " finish"
        )
    output = Path(folder).expanduser().absolute()
    if not output.is_dir():
        raise ValueError(
            f"resume=true output={folder}: the folder does not exist. Set output=FOLDER to the"
            " folder of earlier runs"
        )
    commands = _recorded(output) or list(_commands_of_jobs(output))
    if not commands:
        raise ValueError(
            f"resume=true output={folder}: the folder has no runs with recorded settings. Set"
            " workload=NAME and all further settings of the sweep, or set output=FOLDER to a"
            " different folder"
        )
    call = [*(text for text in arguments if text.partition("=")[0] != "output"), f"output={output}"]
    return [
        SweepCommand((*_overridden(command.arguments, call), *call), command.folder)
        for command in commands
    ]


def _overridden(arguments: Sequence[str], call: Sequence[str]) -> list[str]:
    """Return the arguments of a recorded command that `call` does not replace."""
    replaced = {text.partition("=")[0] for text in call}
    return [text for text in arguments if text.partition("=")[0] not in replaced]


def _without_call(arguments: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in arguments if text.partition("=")[0] not in _OF_ONE_CALL)


def _runs_of(arguments: Sequence[str]) -> list[str]:
    """Return the sorted arguments that determine the runs of a command.

    Arguments that affect only how processes are launched are excluded.
    """
    return sorted(text for text in _without_call(arguments) if not text.startswith("launch"))


def _recorded(output: Path) -> list[SweepCommand]:
    """Return the recorded commands of an output folder.

    The list is empty if the file with the commands cannot be read.
    """
    try:
        content = files.read_json(output / COMMANDS_FILE)
        return [
            SweepCommand(tuple(map(str, entry["arguments"])), str(entry["folder"]))
            for entry in content["commands"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _commands_of_jobs(output: Path) -> Iterator[SweepCommand]:
    """Yield a command for each job, reconstructed from the overrides in its run.json.

    This function is used for folders without a recorded list of commands. Jobs of a study are
    skipped, because a run does not record the axes of its study.
    """
    seen = set()
    for path in sorted(output.glob(f"*/run_*/{RUN_FILE}")):
        try:
            run = read_run(path)
        except (OSError, ValueError):
            continue
        arguments = _without_call(run.overrides)
        if arguments and not run.study and arguments not in seen:
            seen.add(arguments)
            yield SweepCommand(arguments, os.getcwd())
