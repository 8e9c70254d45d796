"""Print the report of a command's runs after the last run, and the log folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from suite.common.command_text import localize_commands, program
from suite.common.relative_path import relative_path
from suite.common.terminal import clean_lines
from suite.control.interrupts import signals_held
from suite.control.sweep import EndedRun


def print_summary(ended: Sequence[EndedRun], console: Console, code: int) -> int:
    """Print the summary of the runs, and return the exit code.

    A failure of the report does not change the result of the runs. If the report fails, the
    function prints the command with which the user can print the report.

    Args:
        ended: The runs of the command.
        console: The console of the command.
        code: Exit code of the runs.

    Returns:
        `code`, or 130 if a signal interrupted the summary.
    """
    command = f"suite report {shlex.quote(relative_path(ended[0].job.folder.parent))}"
    try:
        _summarize(ended, console)
    except KeyboardInterrupt:
        text = localize_commands(
            f"interrupted after the runs, which are kept. For their report, run: {command}"
        )
        console.print(escape(text), soft_wrap=True)
        return 130
    except (ValueError, OSError) as error:
        exists = all(run.job.folder.is_dir() for run in ended)
        kept = (
            f"The runs are kept. For their report, run: {command}"
            if exists
            else "The folder of the runs has been deleted"
        )
        text = localize_commands(f"no report: {one_line(error)}. {kept}")
        print(clean_lines(f"{program()}: {text}"), file=sys.stderr)
    return code


def one_line(error: ValueError | OSError) -> str:
    """Format an error message as a single line, without a traceback."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _summarize(ended: Sequence[EndedRun], console: Console) -> None:
    """Print the report of the runs, their folder, and the command for the HTML page.

    The folder and the command are printed even if the report fails.
    """
    try:
        from suite.results.render.document import markdown
        from suite.results.table import read_runs
        from suite.results.views.report_view import report, with_single_title

        folders = list(dict.fromkeys(run.job.folder for run in ended))
        console.print()
        view = with_single_title(report(read_runs(folders), next_steps=False))
        console.print(markdown(view), soft_wrap=True, markup=False)
    finally:
        with signals_held():
            for run in ended:
                if run.is_lost:
                    name = f"{run.job.name}/run_{run.index}"
                    console.print(
                        f"{name}: its log was deleted during the command",
                        soft_wrap=True,
                        markup=False,
                    )
            folder = relative_path(ended[0].job.folder.parent)
            console.print(f"Logs  {folder}", soft_wrap=True, markup=False)
            if any(run.status.status == "success" for run in ended):
                next_command = localize_commands(
                    f"suite report {shlex.quote(folder)} --html report.html"
                )
                console.print(f"Next  {next_command}", soft_wrap=True, markup=False)
