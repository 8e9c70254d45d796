"""Runs a program to its end and gives what it says: one that hangs, fails or is not there raises nothing."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from suite.launch.worker_env import inherited_variables


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
    """Run a command without input and return its exit code and output.

    Args:
        command: The argv.
        seconds: The command is killed after this time; None: it may take any time.
        without: Names of variables that it does not inherit, in addition to those that no worker inherits.
        also: Variables that are set for it.
    """
    inherited = inherited_variables(os.environ)
    variables = {name: value for name, value in inherited.items() if name not in without} | dict(also or {})
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
