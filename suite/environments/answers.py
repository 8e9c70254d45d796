"""Runs a program to its end and gives what it says: one that hangs, fails or is not there raises nothing."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Answer(NamedTuple):
    """What a program said."""

    code: int | None
    """Its exit code; None: it did not answer in time, or cannot be started, as `errors` says."""
    out: str
    errors: str

    @property
    def why(self) -> str:
        """Why it failed, in one line."""
        return last_line(self.errors) or f"exit code {self.code}"


def answer(
    command: Sequence[str],
    seconds: float | None = None,
    without: Sequence[str] = (),
    also: Mapping[str, str] | None = None,
) -> Answer:
    """Run a command that asks nothing, for at most so many seconds, with all variables but those in `without`, and others."""
    variables = {name: value for name, value in os.environ.items() if name not in without} | dict(also or {})
    try:
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"no answer within {seconds:g} s")
    except OSError as error:
        return Answer(None, "", f"{command[0]}: {error.strerror}")
    return Answer(done.returncode, *(part.decode(errors="replace").strip() for part in (done.stdout, done.stderr)))


def last_line(text: str) -> str:
    """The last line that says something: docker ends its complaints with where help is. Empty: there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("See '", "Run '"))]
    return lines[-1] if lines else ""
