"""Signals that end a command: the first one does, in its own time; those that follow it quickly change nothing."""

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

from suite.common.terminal import clean_lines
from suite.common.typed import run_command

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Ctrl-C, `kill`, a terminal or ssh connection that closes, and what batch systems send before their limit or to preempt."""


def listen() -> None:
    """From now on each of SIGNALS raises KeyboardInterrupt. One that is ignored stays so: `nohup`, a shell's `&`."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


class _Held:
    """Blocks that are not to be left in their midst, and the signal that came during one."""

    depth = 0
    name = ""


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in SIGNALS:  # what follows, ending processes and filing why, takes seconds and is done once
        signal.signal(other, signal.SIG_IGN)
    if number == signal.SIGHUP:
        _leave_terminal()
    if _Held.depth:
        _Held.name = signal.Signals(number).name
        return
    raise KeyboardInterrupt(signal.Signals(number).name)


def _leave_terminal() -> None:
    """Send output that no one can read any more nowhere: a write would fail. Files keep what they get."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Signals that come during the block act after it. A mask would not do: whichever thread gets the signal, Python runs its
    handler in the main one."""
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
    """Return `env` without a `COLUMNS` or `LINES` value that no terminal has.

    rich takes the two values as they are: with a width of 0 it prints nothing, with `²` it raises ValueError. Without
    the variable it asks the terminal, and takes 80 × 25 if there is none.
    """
    ranges = {"COLUMNS": (MIN_COLUMNS, MAX_COLUMNS), "LINES": (MIN_LINES, MAX_LINES)}

    def is_usable(name: str, value: str) -> bool:
        if name not in ranges:
            return True
        low, high = ranges[name]
        return value.isdecimal() and low <= int(value[:9]) <= high

    return {name: value for name, value in env.items() if is_usable(name, value)}


class WholeLines(Console):
    """A console whose lines are not cut by a signal.

    rich alone would write the rest of its buffer, or all of it, a second time. Strings are printed without control
    characters, because they may come from a file.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(_environ=usable_terminal_env(os.environ), **options)

    def print(self, *objects: Any, **how: Any) -> None:
        cleaned = [clean_lines(item) if isinstance(item, str) else item for item in objects]
        with signals_held():
            super().print(*cleaned, **how)


def resuming_command(arguments: Sequence[str], output: Path) -> str:
    """The command line that goes on with an interrupted one, as it can be typed here."""
    kept = [word for word in arguments if word.partition("=")[0] not in ("output", "resume")]
    return f"{run_command()} {shlex.join([*kept, f'output={output}', 'resume=true'])}"
