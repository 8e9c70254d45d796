"""Run a program until it exits, and return its exit code and output.

No exception is raised if the program hangs, fails, or does not exist.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from suite.launch.worker_env import inherited_variables


class CommandResult(NamedTuple):
    """Exit code and output of a program."""

    code: int | None
    """Exit code of the program.

    The exit code is None if the program timed out or could not be started. `errors` then contains
    the reason.
    """
    out: str
    errors: str

    @property
    def why(self) -> str:
        """Return the reason why the program failed as a single line."""
        return last_line(self.errors) or f"exit code {self.code}"


def captured(
    command: Sequence[str],
    seconds: float | None = None,
    without: Sequence[str] = (),
    also: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command without input, and return its exit code and output.

    Args:
        command: The command line.
        seconds: Timeout after which the command is killed. None means no timeout.
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
    """Return the last informative line of a program's output, or an empty string.

    The function skips blank lines, and the hint about `--help` at the end of docker's error
    messages.
    """
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith(("See '", "Run '"))
    ]
    return lines[-1] if lines else ""
