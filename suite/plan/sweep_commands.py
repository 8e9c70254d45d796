"""Commands that wrote into an output folder, so that `resume=true output=FOLDER` alone can repeat them."""

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
"""Words that do not say what a command runs."""
_NAME_A_WORKLOAD = ("workload", "study", "experiment", "+experiment")


@dataclass(frozen=True)
class SweepCommand:
    """One command line, without the folder that it wrote into."""

    arguments: tuple[str, ...]
    folder: str
    """The working directory, which relative paths start from."""


def record_command(output: Path, arguments: Sequence[str]) -> None:
    """Add a command to those of an output folder, unless the folder has it."""
    commands = _recorded(output)
    command = SweepCommand(_without_call(arguments), os.getcwd())
    if _runs_of(command.arguments) in [_runs_of(earlier.arguments) for earlier in commands]:
        return
    listed = [{"arguments": list(one.arguments), "folder": one.folder} for one in [*commands, command]]
    write_atomically(output / COMMANDS_FILE, json.dumps({"commands": listed}, indent=1, ensure_ascii=False) + "\n")


def is_recorded(output: Path, arguments: Sequence[str]) -> bool:
    """Return True if the same command wrote into the output folder before."""
    return _runs_of(arguments) in [_runs_of(command.arguments) for command in _recorded(output)]


def commands_to_resume(arguments: Sequence[str]) -> list[SweepCommand]:
    """Return the complete commands that `resume=true output=FOLDER` without a workload stands for.

    Other settings on the command line go before those of the folder. Empty: the command line names what it runs, or does not
    resume.

    Raises:
        ValueError: No output folder is set, or it holds no runs.
    """
    typed = {text.partition("=")[0]: text.partition("=")[2] for text in arguments if "=" in text}
    names_its_runs = bool(set(_NAME_A_WORKLOAD) & set(typed))
    if typed.get("resume", "").lower() != "true" or names_its_runs or {"--help", "-h"} & set(arguments):
        return []
    given = typed.get("output", "").strip("'\"")
    if not given.strip():
        raise ValueError("resume=true: which sweep? type output=FOLDER with the folder of the sweep to finish")
    output = Path(given).expanduser().absolute()
    if not output.is_dir():
        raise ValueError(
            f"resume=true output={given}: there is no such folder; set output=FOLDER to that of earlier runs"
        )
    commands = _recorded(output) or list(_commands_of_jobs(output))
    if not commands:
        raise ValueError(
            f"resume=true output={given}: the folder holds no runs whose settings are known; set workload=NAME and the other "
            f"settings of the sweep, or output=FOLDER to another folder"
        )
    call = [*(text for text in arguments if text.partition("=")[0] != "output"), f"output={output}"]
    return [SweepCommand((*_overridden(command.arguments, call), *call), command.folder) for command in commands]


def _overridden(arguments: Sequence[str], call: Sequence[str]) -> list[str]:
    """Return the words of a recorded command that the words of this call do not replace."""
    replaced = {text.partition("=")[0] for text in call}
    return [text for text in arguments if text.partition("=")[0] not in replaced]


def _without_call(arguments: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in arguments if text.partition("=")[0] not in _OF_ONE_CALL)


def _runs_of(arguments: Sequence[str]) -> list[str]:
    """Return the words that decide what a command runs, in one order: how its processes are launched is left out."""
    return sorted(text for text in _without_call(arguments) if not text.startswith("launch"))


def _recorded(output: Path) -> list[SweepCommand]:
    """Return the commands that the folder's file lists; a file that cannot be read counts as none."""
    try:
        content = files.read_json(output / COMMANDS_FILE)
        return [SweepCommand(tuple(map(str, one["arguments"])), str(one["folder"])) for one in content["commands"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _commands_of_jobs(output: Path) -> Iterator[SweepCommand]:
    """Yield a command for each job, from what its runs recorded: for folders without a list of commands.

    Jobs of a study are left out: what a run records does not name its study's axes.
    """
    seen = set()
    for path in sorted(output.glob(f"*/run_*/{RUN_FILE}")):
        try:
            run = read_run(path)
        except (OSError, ValueError):
            continue
        arguments = _without_call(run.typed)
        if arguments and not run.study and arguments not in seen:
            seen.add(arguments)
            yield SweepCommand(arguments, os.getcwd())
