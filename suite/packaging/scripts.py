"""Write `setup.sh` and `run_and_time.sh` of a package.

`setup.sh` reproduces the environment, and `run_and_time.sh` reproduces the runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.environments import locks
from suite.packaging.recorded_overrides import BACKBONE, recorded_overrides
from suite.results.logs.record import RunSettings
from workloads.api import Json

_BACKBONE = (
    f'{BACKBONE}="${{BACKBONE_WEIGHTS:?the path of the file that backbone_weights in the log'
    ' names}"'
)
"""Override that replaces the path of the backbone weights, which exists only on the submitter's
machine.
"""


def write_scripts(folder: Path, settings: RunSettings, recorded: Mapping[str, Json]) -> None:
    """Write `setup.sh` and `run_and_time.sh`.

    `recorded` is the return value of `recorded_machine`.
    """
    _script(folder / "setup.sh", _setup(str(recorded["environment"])))
    _script(folder / "run_and_time.sh", _run(settings, recorded))


def _script(path: Path, lines: Sequence[str]) -> None:
    path.write_text(
        "\n".join(
            ["#!/usr/bin/env bash", "set -euo pipefail", 'cd "$(dirname "$0")/source"', *lines, ""]
        )
    )
    path.chmod(0o755)


def _setup(environment: str) -> list[str]:
    if environment not in locks.framework_locks():
        return [
            "make .venv/.ready",
            "# The runs used a user-defined environment. systems/*.json contains its versions.",
        ]
    return [
        "make .venv/.ready",
        f".venv/bin/python -m suite.cli env create {shlex.quote(environment)}",
    ]


def _run(settings: RunSettings, recorded: Mapping[str, Json]) -> list[str]:
    """Return the command line for all runs.

    Text from a log is quoted, so that the shell never executes it as a command.
    """
    overrides = recorded_overrides(settings, recorded)
    arguments = [shlex.quote(word) for key, word in overrides.items() if key != BACKBONE]
    arguments += [_BACKBONE] if BACKBONE in overrides else []
    return [".venv/bin/python run_suite.py \\", *[f"  {word} \\" for word in arguments], '  "$@"']
