"""Target of an agent process with `launch=external`."""

from __future__ import annotations

from collections.abc import Sequence

from suite.control.command import Command
from suite.control.hosts.external import ExternalProcess
from suite.control.targets.target import Target
from suite.plan.job import Plan


class AgentTarget(Target):
    """Runs the agent of this machine with `launch=external`.

    The controller runs in a different process, usually on a different machine.
    """

    def __init__(self, command: Command, process: ExternalProcess) -> None:
        super().__init__(command)
        self._process = process

    def execute(self, plans: Sequence[Plan]) -> int:
        self._process.serve(self.command.config.launch)
        return 0
