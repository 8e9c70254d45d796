"""Rewrites the commands in messages so that the user can run them here.

For example, `suite env create torch` becomes `.venv/bin/suite env create torch` if `suite` is not
on the PATH. The source code writes commands as `suite …` and `python run_suite.py …`. Code that
prints a message for a user calls `localize_commands`.
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
    """Return the prefix of the messages of a run: `suite run` or `run_suite.py`.

    It is the command that the user ran.
    """
    return "suite run" if _is_suite(Path(sys.argv[0])) else "run_suite.py"


def _is_suite(script: Path) -> bool:
    """Check whether a script starts `suite`.

    The full path is compared, because every `python -m NAME` has a `__main__.py`.
    """
    return script.name == "suite" or script.resolve() in _MODULES


def localize_commands(text: str) -> str:
    """Return `text` with commands that the shell of the user can find.

    Unchanged if no script of the suite is running.
    """
    script = Path(sys.argv[0])
    if not (_is_suite(script) or script.name == "run_suite.py") or not script.is_file():
        return text
    suite, run = suite_command(), run_command()
    return _RUN.sub(lambda _: run, _SUITE.sub(lambda _: f"{suite} ", text))


def suite_command() -> str:
    """Return the command that starts `suite` here."""
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
    """Return the shortest command for a script, quoted.

    This is its name if it is on the PATH, its relative path if it lies below the working directory,
    and its full path otherwise.
    """
    on_path = shutil.which(path.name)
    if on_path is not None and _in_real_folder(Path(on_path)) == _in_real_folder(path):
        return path.name
    below = os.path.relpath(path)
    return shlex.quote(str(path) if below.startswith("..") else below)


def _in_real_folder(path: Path) -> Path:
    """Return a path with the links of its folder resolved.

    The file itself is not resolved, because it is a link in a virtual environment.
    """
    return path.parent.resolve() / path.name
