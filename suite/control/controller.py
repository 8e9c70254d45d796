"""Main program of `run_suite.py`.

The controller composes and plans the jobs, checks that they can run, and executes them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape

from suite.common import process, registry
from suite.common.command_text import localize_commands, program
from suite.common.paths import PROJECT
from suite.common.plugin_errors import describe_plugin_error
from suite.common.terminal import clean_lines
from suite.config.compose import compose
from suite.control.command import Command, output_folder
from suite.control.interrupts import WholeLines, listen, resuming_command
from suite.control.summary import one_line, print_summary
from suite.control.targets.choose_target import choose_target, print_configuration
from suite.plan.sweep_commands import commands_to_resume


def main(arguments: Sequence[str]) -> int:
    """Run a command line.

    `resume=true output=FOLDER` without a workload repeats all commands that wrote to the folder, in
    the order of the commands.

    Returns:
        Exit code: 0 if all runs succeeded, 1 if any run failed, 2 if the command line is invalid,
            130 if a signal interrupted the command.
    """
    try:
        resumed = commands_to_resume(arguments)
    except ValueError as error:
        print(f"{program()}: {localize_commands(str(error))}", file=sys.stderr)
        return 2
    if not resumed:
        return _run_command(arguments)
    code = 0
    for command in resumed:
        print(
            f"settings from the folder: {localize_commands('python run_suite.py')}"
            f" {shlex.join(command.arguments)}",
            flush=True,
        )
        with _working_directory(command.folder):
            code = max(code, _run_command(command.arguments))
        if code == 130:
            break
    return code


@contextlib.contextmanager
def _working_directory(folder: str) -> Iterator[None]:
    """Change to the working directory of an earlier command.

    Relative paths in the earlier command then refer to the same files. If the directory no longer
    exists, the working directory does not change.
    """
    before = os.getcwd()
    if not os.path.isdir(folder):
        folder = before
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_command(arguments: Sequence[str]) -> int:
    """Compose a command, run its jobs, and return the exit code."""
    process.prepare()
    console = WholeLines(highlight=False)
    listen()
    command: Command | None = None
    ended = []
    try:
        if not registry.names(registry.WORKLOADS):
            raise ValueError(
                f"the suite is not installed for {sys.executable}. Run: pip install --no-deps -e"
                f" {PROJECT}"
            )
        request = compose(arguments)
        if not request.jobs:
            return 0
        if request.shown is not None:
            print_configuration(request)
            return 0
        for note in request.notes:
            console.print(escape(note), soft_wrap=True)
        command = Command(request, output_folder(request.jobs[0]), console)
        with choose_target(command) as target:
            ended = target.ended
            plans = target.plan()
            target.refuse(plans)
            code = target.execute(plans)
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and command is not None:
            # Add the output folder to the error, because the error for a full disk contains no file
            # name.
            error.filename = error.filename or str(command.output)
        print(clean_lines(f"{program()}: {localize_commands(one_line(error))}"), file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        _print_interrupted(command, console)
        code = 130
    except Exception as error:
        if (text := describe_plugin_error(error)) is None:
            raise
        print(f"{program()}: {text}", file=sys.stderr)
        code = 2
    return print_summary(ended, console, code) if ended else code


def _print_interrupted(command: Command | None, console: Console) -> None:
    """Print the command line that resumes an interrupted command."""
    text = "interrupted before the first run"
    if command is not None and command.output.exists():
        resume = resuming_command(command.request.arguments, command.output)
        text = (
            "interrupted. Finished runs and checkpoints are kept. To run the missing runs, run:\n "
            f" {resume}"
        )
    console.print(escape(text), soft_wrap=True)
