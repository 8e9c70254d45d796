"""Handle the signals that end a command.

The first signal ends the command. All later signals are ignored.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from suite.common.command_text import run_command
from suite.common.terminal import clean_lines

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that end a command: the signals for Ctrl-C, `kill`, and a closed terminal or ssh
connection, and the signals that batch systems send before the time limit or a preemption.
"""


def listen() -> None:
    """Raise KeyboardInterrupt in the main thread when one of SIGNALS arrives.

    Signals that are already ignored, for example after `nohup` or `&` in a shell, stay ignored.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


class _Held:
    """Internal state of `signals_held`."""

    depth = 0
    """Number of nested `signals_held` blocks."""
    name = ""
    """Name of a signal that arrived inside a `signals_held` block."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ignore further signals, and raise KeyboardInterrupt.

    Inside a `signals_held` block, the function only records the signal.
    """
    # Ignore further signals, because ending the processes and writing the status takes seconds and
    # must not be interrupted.
    for following in SIGNALS:
        signal.signal(following, signal.SIG_IGN)
    if number == signal.SIGHUP:
        _leave_terminal()
    if _Held.depth:
        _Held.name = signal.Signals(number).name
        return
    raise KeyboardInterrupt(signal.Signals(number).name)


def _leave_terminal() -> None:
    """Redirect stdout and stderr to /dev/null, unless they are redirected to files.

    After the terminal was closed, each write to the terminal would fail.
    """
    devnull = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.dup2(devnull, descriptor)
    os.close(devnull)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Delay signals that arrive inside the `with` block until the end of the block.

    A signal mask is not sufficient, because Python runs the handler in the main thread regardless
    of which thread receives the signal.
    """
    _Held.depth += 1
    try:
        yield
    finally:
        _Held.depth -= 1
        name = _Held.name
        if name and not _Held.depth:
            _Held.name = ""
            raise KeyboardInterrupt(name)


MIN_COLUMNS, MAX_COLUMNS = 20, 10_000
MIN_LINES, MAX_LINES = 2, 10_000
"""Minimum and maximum values that are accepted in `COLUMNS` and `LINES`."""


def usable_terminal_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without `COLUMNS` or `LINES` if it is not a valid terminal size.

    rich does not check `COLUMNS` and `LINES`. rich prints nothing for a width of 0, and raises
    ValueError for a value such as `²`. Without the two variables, rich queries the terminal, and
    uses 80 × 25 if no terminal is connected.
    """
    ranges = {"COLUMNS": (MIN_COLUMNS, MAX_COLUMNS), "LINES": (MIN_LINES, MAX_LINES)}

    def is_usable(name: str, value: str) -> bool:
        if name not in ranges:
            return True
        low, high = ranges[name]
        return value.isdecimal() and low <= int(value[:9]) <= high

    return {name: value for name, value in env.items() if is_usable(name, value)}


class WholeLines(Console):
    """Console that prints complete lines, even if a signal arrives.

    Without `signals_held`, rich could print the content of its buffer twice when a signal arrives.
    Control characters are removed from strings, because the strings may come from a file.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(_environ=usable_terminal_env(os.environ), **options)

    def print(self, *objects: Any, **how: Any) -> None:
        cleaned = [clean_lines(item) if isinstance(item, str) else item for item in objects]
        with signals_held():
            super().print(*cleaned, **how)


def resuming_command(arguments: Sequence[str], output: Path) -> str:
    """Return the command line that resumes an interrupted command.

    The command line is quoted for the user's shell.
    """
    overrides = [word for word in arguments if word.partition("=")[0] not in ("output", "resume")]
    return f"{run_command()} {shlex.join([*overrides, f'output={output}', 'resume=true'])}"
