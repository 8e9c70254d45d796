"""Rewrite the commands in messages so that the user can run them in the shell.

For example, `suite env create torch` becomes `.venv/bin/suite env create torch` if `suite` is not
on the PATH. In the source code, messages contain commands as `suite …` and `python run_suite.py …`.
Code that prints a message for a user calls `localize_commands`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from suite.common.paths import IN_CHECKOUT, PROJECT

COMMANDS = "advise|check|compare|data|doctor|env|export|package|published|report|run|scaling|tables"
_SUITE = re.compile(rf"(?<![\w./`-])suite (?=(?:{COMMANDS})\b)")
_RUN = re.compile(r"(?<![\w./-])python run_suite\.py(?=\s)")


_MODULES = [Path(__file__).resolve().parents[1] / name for name in ("cli.py", "__main__.py")]


def program() -> str:
    """Return the prefix for messages of a run: `suite run` or `run_suite.py`.

    The prefix is the command with which the user started the run.
    """
    return "suite run" if _is_suite(Path(sys.argv[0])) else "run_suite.py"


def _is_suite(script: Path) -> bool:
    """Check whether a script is the `suite` command.

    Full paths are compared, because every package that `python -m NAME` runs has a `__main__.py`.
    """
    return script.name == "suite" or script.resolve() in _MODULES


def localize_commands(text: str) -> str:
    """Rewrite the commands in `text` so that the user's shell can find them.

    The text is returned unchanged if the current process was not started from a script of the
    suite.
    """
    script = Path(sys.argv[0])
    if not (_is_suite(script) or script.name == "run_suite.py") or not script.is_file():
        return text
    suite, run = suite_command(), run_command()
    return _RUN.sub(lambda _: run, _SUITE.sub(lambda _: f"{suite} ", text))


def suite_command() -> str:
    """Return the command that starts `suite` in the user's shell."""
    script = Path(sys.executable).parent / "suite"
    return (
        _shortest(script) if script.is_file() else f"{_shortest(Path(sys.executable))} -m suite.cli"
    )


def run_command() -> str:
    """Return the command that starts runs: `suite run`, or run_suite.py in a checkout."""
    if not IN_CHECKOUT or program() == "suite run":
        return f"{suite_command()} run"
    return f"{_shortest(Path(sys.executable))} {_shortest(PROJECT / 'run_suite.py')}"


def _shortest(path: Path) -> str:
    """Return the shortest command for a script, with shell quotes.

    The command is the script's name if the script is on the PATH. Otherwise, the command is the
    relative path if the script lies below the working directory, and the full path if not.
    """
    on_path = shutil.which(path.name)
    if on_path is not None and _in_real_folder(Path(on_path)) == _in_real_folder(path):
        return path.name
    below = os.path.relpath(path)
    return shlex.quote(str(path) if below.startswith("..") else below)


def _in_real_folder(path: Path) -> Path:
    """Return a path with symbolic links in its parent folder resolved.

    A symbolic link at `path` itself is not resolved, because the Python executable in a virtual
    environment is a symbolic link.
    """
    return path.parent.resolve() / path.name
