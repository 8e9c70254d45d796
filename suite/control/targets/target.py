"""Interface of a target, which executes or prints the plans of a command's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from suite.control.command import Command
from suite.control.sweep import EndedRun
from suite.plan.job import Plan


class Target:
    """Executes or prints the plans of a command's jobs.

    The controller enters the target's context, then calls `plan`, `refuse`, and `execute`, in this
    order. The default implementations are for targets that need no plans.
    """

    def __init__(self, command: Command) -> None:
        self.command = command
        self.ended: list[EndedRun] = []
        """Runs that have ended, for the summary.

        The list can still be used if `execute` raises an exception.
        """

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the resources of the target, such as connections to agents."""

    def plan(self) -> list[Plan]:
        """Return a plan for each job.

        A plan may contain findings, which prevent the job from running.
        """
        return []

    def refuse(self, plans: Sequence[Plan]) -> None:
        """Raise ValueError with a list of all problems if the command cannot run."""

    def execute(self, plans: Sequence[Plan]) -> int:
        """Execute the command, and return its exit code."""
        raise NotImplementedError
