"""Build the page block that lists commands for the user's next steps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from suite.results.columns import OURS, Result, Run
from suite.results.ratios import MINIMUM_RUNS
from suite.results.render.html.page_blocks import Block, Part
from suite.results.render.html.page_rows import PageRows
from suite.results.scores import figure
from suite.results.text import clean
from suite.results.views.repeat import next_commands, repeating_commands

_MAX_COMMANDS = 4
"""Maximum number of commands per next step."""


def next_steps_blocks(
    rows: PageRows, runs: Sequence[Run], results: Sequence[Result]
) -> list[Block]:
    """Return a block with commands for the next steps.

    The list is empty if the page contains no result of this suite.
    """
    measured = [result for result in results if result.round == OURS and figure(result) is not None]
    paths = [Path(run.path).absolute() for run in runs if run.path and run.round == OURS]
    if not measured or not paths:
        return []
    folder = _relative(
        os.path.commonpath([path.parents[1] if len(path.parents) > 1 else path for path in paths])
    )
    parts = []
    if any(result.to_target for result in measured):
        parts.append(
            _step(
                "Show how many devices are worth their cost:", f"suite advise {shlex.quote(folder)}"
            )
        )
    if len({result.devices for result in measured}) == 1:
        doubling = tuple(
            dict.fromkeys(command for result in measured for command in next_commands(result))
        )
        parts.append(
            _step("Measure the speedup on twice as many devices:", *doubling[:_MAX_COMMANDS])
        )
    few_runs = [result for result in measured if result.runs_successful < MINIMUM_RUNS]
    repeating = tuple(
        dict.fromkeys(command for result in few_runs for command in repeating_commands(result))
    )
    parts.append(
        _step("Repeat the runs, to measure how much they vary:", *repeating[:_MAX_COMMANDS])
    )
    if any(result.profile == "reference" for result in measured):
        parts.append(
            _step(
                "Compare with published MLPerf results:",
                f"suite compare {shlex.quote(folder)} --to v0.5",
            )
        )
    parts.append(
        _step(
            "Save all figures as files:",
            f"suite report {shlex.quote(folder)} --html page.html --figures figures",
        )
    )
    shown = [part for part in parts if part.commands]
    return [Block("Next steps", "next-steps", parts=shown, numbers=rows.numbers(measured))]


def _step(sentence: str, *commands: str) -> Part:
    return Part(above=(sentence,), commands=commands)


def _relative(path: str) -> str:
    """Return a path as sanitized text.

    A path below the working directory is converted to a relative path.
    """
    absolute, here = Path(path).absolute(), Path.cwd()
    return clean(
        str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute), 400
    )
