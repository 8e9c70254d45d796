"""A `suite` command on every machine of several, each with its answer and name: `suite doctor --hosts a,b`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from suite.common.run_config import LaunchConfig
from suite.control.hosts import launchers
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_control import ConnectionLost
from suite.control.hosts.remote_host import own_variables
from suite.launch.children import exit_text

MAX_SECONDS = 6 * 3600.0
"""How long a command may take: every image of a data set is read, or an environment is downloaded."""
NOT_CARRIED_OUT = 2
"""Exit code for a machine that cannot be reached or does not start the command, as for a user's mistake."""


def run_on_hosts(
    words: Sequence[str],
    launch: LaunchConfig,
    say: Callable[[str], None],
    variables: Mapping[str, str] = os.environ,
) -> int:
    """Run `suite WORDS` on all machines of `launch` at once, in its order of machines; returns the worst exit code.

    `say` gets every line that a machine answers, with its name before it. A machine that cannot be reached is one such line.
    Raises ValueError where the machines are not named, or what reaches them is not installed here.
    """
    by, links = launchers.way(launch, variables), list[AgentConnection]()
    command = [sys.executable, "-m", "suite.cli", *words]
    names = launchers.machine_names(launch, variables)
    with ThreadPoolExecutor(len(names)) as pool:
        try:
            for name in names:  # in this thread, whose end ends what it starts
                links.append(launchers.started(name, by, launch))
            codes = []
            for link, answer in [(link, pool.submit(_answer, link, command)) for link in links]:
                code, lines = answer.result()  # in their order, each as soon as it and those before it are known
                codes.append(code)
                for line in lines:
                    say(f"{link.name}: {line}")
            return max(codes)
        finally:
            for link in links:
                link.close()


def _answer(link: AgentConnection, command: Sequence[str]) -> tuple[int, list[str]]:
    """The exit code and lines of a machine."""
    order = {"command": list(command), "most_seconds": MAX_SECONDS, "variables": own_variables()}
    try:
        link.greet()
        return _read(link.call("ask", MAX_SECONDS, **order))
    except (ValueError, ConnectionLost) as error:
        return NOT_CARRIED_OUT, [str(error).removeprefix(f"{link.name}: ")]


def _read(answer: Mapping[str, Any]) -> tuple[int, list[str]]:
    code = int(answer["code"])
    lines = [line for line in (*answer["output"].splitlines(), *answer["errors"].splitlines()) if line.strip()]
    if code < 0:
        return 128 - code, [*lines, f"ended with {exit_text(code)}"]
    return code, lines or [f"nothing said, exit code {code}"]
