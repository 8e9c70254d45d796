"""Target that runs the jobs on this machine or through agents."""

from __future__ import annotations

from collections.abc import Sequence

from suite.common.output_lock import output_locked
from suite.control.cells import write_study
from suite.control.command import Command
from suite.control.folders import check_folders
from suite.control.hosts.agents import Agents
from suite.control.planning import check_jobs, plan_all, refuse
from suite.control.sweep import run_jobs
from suite.control.targets.target import Target
from suite.plan.job import Plan
from suite.plan.sweep_commands import record_command


class RunTarget(Target):
    """Runs the jobs on this machine, or on the machines of the agents."""

    def __init__(self, command: Command, agents: Agents | None) -> None:
        super().__init__(command)
        self._agents = agents
        self._hosts = agents.hosts if agents is not None else ()

    def close(self) -> None:
        if self._agents is not None:
            self._agents.close()

    def plan(self) -> list[Plan]:
        return plan_all(self.command.request, self.command.output, self._hosts)

    def refuse(self, plans: Sequence[Plan]) -> None:
        refuse(self.command.request, plans, self._agents is None)

    def execute(self, plans: Sequence[Plan]) -> int:
        """Run the jobs. Return 0 if every run ended as expected, otherwise 1."""
        command = self.command
        jobs, cells = check_jobs(command, plans, self._hosts, self._agents is None)
        if self._agents is not None:
            self._agents.check(jobs)
        with output_locked(command.output) as check_output:
            check_folders(
                jobs, bool(command.config.resume), command.output, command.request.arguments
            )
            record_command(command.output, command.request.arguments)
            if cells:
                write_study(command.output, cells)
            return 0 if run_jobs(jobs, command, self.ended, check_output, self._agents) else 1
