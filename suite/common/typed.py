"""Commands in messages, as they can be typed here: `.venv/bin/suite env create torch` where `suite` is not on the PATH.

Messages are written with `suite …` and `python run_suite.py …`; whoever prints one for a user passes it through `as_typed`.
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
    """What starts the messages of a run: `suite run` where that was typed."""
    return "suite run" if _is_suite(Path(sys.argv[0])) else "run_suite.py"


def _is_suite(script: Path) -> bool:
    """Whether it starts `suite`; any program's `python -m NAME` has a `__main__.py`."""
    return script.name == "suite" or script.resolve() in _MODULES


def as_typed(text: str) -> str:
    """`text` with its commands as the shell here finds them. Unchanged where no script of ours started this process."""
    script = Path(sys.argv[0])
    if not (_is_suite(script) or script.name == "run_suite.py") or not script.is_file():
        return text
    suite, run = suite_command(), run_command()
    return _RUN.sub(lambda _: run, _SUITE.sub(lambda _: f"{suite} ", text))


def suite_command() -> str:
    """How `suite` is called here."""
    script = Path(sys.executable).parent / "suite"
    return _shortest(script) if script.is_file() else f"{_shortest(Path(sys.executable))} -m suite.cli"


def run_command() -> str:
    """How runs are started here: run_suite.py of a checkout, `suite run` of an installed package."""
    if not IN_CHECKOUT or program() == "suite run":
        return f"{suite_command()} run"
    return f"{_shortest(Path(sys.executable))} {_shortest(PROJECT / 'run_suite.py')}"


def _shortest(path: Path) -> str:
    """A file's name where the PATH leads to it, its path below the working directory, or all of its path; quoted."""
    on_path = shutil.which(path.name)
    if on_path is not None and _place(Path(on_path)) == _place(path):
        return path.name
    below = os.path.relpath(path)
    return shlex.quote(str(path) if below.startswith("..") else below)


def _place(path: Path) -> Path:
    """A file's path with its folder's links resolved, not its own: the Python of a virtual environment is a link."""
    return path.parent.resolve() / path.name
