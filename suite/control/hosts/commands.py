"""A `suite` command on every machine of several, each with its answer and name: `suite doctor --hosts a,b`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite.control.hosts import launchers
from suite.control.hosts.agents import refuse_other_version
from suite.control.hosts.connection import LOOK_SECONDS, AgentConnection
from suite.control.hosts.remote_host import own_variables
from suite.launch.children import exit_text
from suite.launch.launcher import Launch

MOST_SECONDS = 6 * 3600.0
"""How long a command may take: every image of a data set is read, or an environment is downloaded."""
NOT_CARRIED_OUT = 2
"""Exit code for a machine that cannot be reached or does not start the command, as for a user's mistake."""


def run_on_hosts(
    words: Sequence[str],
    launch: Launch,
    say: Callable[[str], None],
    variables: Mapping[str, str] = os.environ,
) -> int:
    """Run `suite WORDS` on all machines of `launch` at once, in its order of machines; returns the worst exit code.

    `say` gets every line that a machine answers, with its name before it. A machine that cannot be reached is one such line.
    Raises ValueError where the machines are not named, or what reaches them is not installed here.
    """
    by, links = launchers.way(launch, variables), list[AgentConnection]()
    command = [sys.executable, "-m", "suite.cli", *words]
    try:
        for name in launchers.machine_names(launch, variables):
            links.append(launchers.started(name, by, launch))
        answers = _Answers(links, command)
        codes = []
        for link in links:  # in their order, each as soon as it and those before it are known
            code, lines = answers.wait(link)
            codes.append(code)
            for line in lines:
                say(f"{link.name}: {line}")
        return max(codes)
    finally:
        for link in links:
            link.close()


class _Answers:
    """What each machine answers: its exit code and lines."""

    def __init__(self, links: Sequence[AgentConnection], command: Sequence[str]) -> None:
        self._links, self._command = links, command
        self._numbers: dict[AgentConnection, int] = {}
        self._known: dict[AgentConnection, tuple[int, list[str]]] = {}

    def wait(self, link: AgentConnection) -> tuple[int, list[str]]:
        while link not in self._known:
            link.listen(LOOK_SECONDS)
            for one in self._links:
                if one not in self._known:
                    self._look(one)
        return self._known[link]

    def _look(self, link: AgentConnection) -> None:
        """Ask a machine that has come, and take its answer."""
        try:
            if loss := link.lost():
                raise ValueError(loss.reason)
            if link.facts is not None and link not in self._numbers:
                refuse_other_version(link)
                order = {"command": list(self._command), "most_seconds": MOST_SECONDS, "variables": own_variables()}
                self._numbers[link] = link.ask("ask", **order)
            elif link in self._numbers and link.has_answered(self._numbers[link]):
                self._known[link] = _read(link.answer(self._numbers[link], 0.0))
        except ValueError as error:
            self._known[link] = NOT_CARRIED_OUT, [str(error).removeprefix(f"{link.name}: ")]


def _read(answer: Mapping[str, Any]) -> tuple[int, list[str]]:
    code = int(answer["code"])
    lines = [line for line in (*answer["output"].splitlines(), *answer["errors"].splitlines()) if line.strip()]
    if code < 0:
        return 128 - code, [*lines, f"ended with {exit_text(code)}"]
    return code, lines or [f"nothing said, exit code {code}"]
