"""The interface of a target: what a command does with the plans of its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from suite.control.command import Command
from suite.control.sweep import EndedRun
from suite.plan.job import Plan


class Target:
    """What a command does with the plans of its jobs.

    The controller enters the target, then calls `plan`, `refuse` and `execute`, in this order. The default implementations are
    those of a target without plans.
    """

    def __init__(self, command: Command) -> None:
        self.command = command
        self.ended: list[EndedRun] = []
        """Runs that have ended, for the summary. They are listed here even if `execute` raises an exception."""

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what the target holds, such as connections to agents."""

    def plan(self) -> list[Plan]:
        """Return a plan for each job. A plan may have findings that keep its job from running."""
        return []

    def refuse(self, plans: Sequence[Plan]) -> None:
        """Raise ValueError with all obstacles if the command cannot run."""

    def execute(self, plans: Sequence[Plan]) -> int:
        """Do what the command requests, and return its exit code."""
        raise NotImplementedError
