"""Handles the signals that end a command.

The first signal ends it, and the signals that follow are ignored.
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
"""Ctrl-C, `kill`, a closed terminal or ssh connection, and the signals that batch systems send
before the time limit or to preempt a job.
"""


def listen() -> None:
    """Raise KeyboardInterrupt in the main thread at each of SIGNALS, from now on.

    Signals that are ignored stay ignored, such as after `nohup` or a shell's `&`.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


class _Held:
    """State of `signals_held`."""

    depth = 0
    """Number of nested blocks that a signal must not interrupt."""
    name = ""
    """Name of the signal that arrived during such a block."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ignore further signals, and raise KeyboardInterrupt.

    Inside `signals_held`, the signal is only noted.
    """
    # Processes are ended and the status is written only once, which takes seconds.
    for following in SIGNALS:
        signal.signal(following, signal.SIG_IGN)
    if number == signal.SIGHUP:
        _leave_terminal()
    if _Held.depth:
        _Held.name = signal.Signals(number).name
        return
    raise KeyboardInterrupt(signal.Signals(number).name)


def _leave_terminal() -> None:
    """Redirect stdout and stderr to /dev/null, because a write to a closed terminal fails.

    Output to files is kept.
    """
    devnull = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.dup2(devnull, descriptor)
    os.close(devnull)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Delay signals that arrive during the block until its end.

    A signal mask is not sufficient. Python runs the handler in the main thread, whichever thread
    receives the signal.
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
"""Smallest and largest terminal size that `COLUMNS` and `LINES` may give."""


def usable_terminal_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without a `COLUMNS` or `LINES` value that is invalid as a terminal size.

    rich does not check the two values. With a width of 0, it prints an empty text, and with `²`, it
    raises ValueError. Without the variable, rich reads the size of the terminal, or uses 80 × 25
    without a terminal.
    """
    ranges = {"COLUMNS": (MIN_COLUMNS, MAX_COLUMNS), "LINES": (MIN_LINES, MAX_LINES)}

    def is_usable(name: str, value: str) -> bool:
        if name not in ranges:
            return True
        low, high = ranges[name]
        return value.isdecimal() and low <= int(value[:9]) <= high

    return {name: value for name, value in env.items() if is_usable(name, value)}


class WholeLines(Console):
    """A console that prints whole lines, even if a signal arrives.

    Without `signals_held`, rich would print its buffer, or the rest of it, a second time. Strings
    are printed without control characters, because they may come from a file.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(_environ=usable_terminal_env(os.environ), **options)

    def print(self, *objects: Any, **how: Any) -> None:
        cleaned = [clean_lines(item) if isinstance(item, str) else item for item in objects]
        with signals_held():
            super().print(*cleaned, **how)


def resuming_command(arguments: Sequence[str], output: Path) -> str:
    """Return the command line that resumes an interrupted command.

    It is quoted for the shell of this machine.
    """
    overrides = [word for word in arguments if word.partition("=")[0] not in ("output", "resume")]
    return f"{run_command()} {shlex.join([*overrides, f'output={output}', 'resume=true'])}"
