"""Entry point of `run_suite.py` and `suite run`.

The controller and most modules of the suite are only imported if they are needed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from suite.common import process
from suite.common.command_text import localize_commands, program
from suite.common.installed_copy import print_copy_notice
from suite.common.terminal import clean_lines
from suite.config.at_once import answer


def main(arguments: Sequence[str]) -> int:
    """Run a command line.

    Returns:
        Exit code: 2 if the command line is invalid, 1 if packages are missing, otherwise the
            controller's exit code.
    """
    process.prepare()
    try:
        if arguments[:1] != ["-sc"]:
            print_copy_notice(program())
        printed = answer(arguments)
        if printed is not None:
            print(clean_lines(printed), flush=True)
            return 0
        from suite.control.controller import main as run
    except ValueError as error:
        print(clean_lines(f"{program()}: {localize_commands(str(error))}"), file=sys.stderr)
        return 2
    except BrokenPipeError:
        process.print_no_more()
        return 0
    except ModuleNotFoundError as error:
        remedy = "Run `make demo` once, then .venv/bin/python run_suite.py …"
        print(
            f"{program()}: {error.name} is not installed for {sys.executable}. {remedy}",
            file=sys.stderr,
        )
        return 1
    return run(arguments)
