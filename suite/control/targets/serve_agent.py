"""The target of an agent process with `launch=external`."""

from __future__ import annotations

from collections.abc import Sequence

from suite.control.command import Command
from suite.control.hosts.external import ExternalProcess
from suite.control.targets.target import Target
from suite.plan.job import Plan


class AgentTarget(Target):
    """Serves a controller as the agent of this machine, with `launch=external`.

    The controller is a different process.
    """

    def __init__(self, command: Command, process: ExternalProcess) -> None:
        super().__init__(command)
        self._process = process

    def execute(self, plans: Sequence[Plan]) -> int:
        self._process.serve(self.command.config.launch)
        return 0
