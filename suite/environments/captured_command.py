"""Runs a program to its end and returns its exit code and output.

A program that hangs, fails, or does not exist raises no exception.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from suite.launch.worker_env import inherited_variables


class CommandResult(NamedTuple):
    """The exit code and the output of a program."""

    code: int | None
    """The exit code.

    None if the program did not end in time or cannot be started: `errors` then has the reason.
    """
    out: str
    errors: str

    @property
    def why(self) -> str:
        """The reason why the program failed, in one line."""
        return last_line(self.errors) or f"exit code {self.code}"


def captured(
    command: Sequence[str],
    seconds: float | None = None,
    without: Sequence[str] = (),
    also: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command without input and return its exit code and output.

    Args:
        command: The command line.
        seconds: Time after which the command is killed. None: there is no limit.
        without: Environment variables that the command does not inherit, in addition to the
            variables that no worker inherits.
        also: Environment variables to set for the command.
    """
    inherited = inherited_variables(os.environ)
    env = {name: value for name, value in inherited.items() if name not in without} | dict(
        also or {}
    )
    try:
        completed = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CommandResult(None, "", f"no answer within {seconds:g} s")
    except OSError as error:
        return CommandResult(None, "", f"{command[0]}: {error.strerror}")
    streams = (completed.stdout, completed.stderr)
    return CommandResult(
        completed.returncode, *(stream.decode(errors="replace").strip() for stream in streams)
    )


def last_line(text: str) -> str:
    """Return the last informative line of an output, or an empty string.

    Blank lines are skipped, and so are the lines at the end of docker's error messages that refer
    to its help.
    """
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith(("See '", "Run '"))
    ]
    return lines[-1] if lines else ""
