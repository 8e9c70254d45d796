"""Target of a dry run, which prints the plans of a command."""

from __future__ import annotations

from collections.abc import Sequence

from suite.common.command_text import localize_commands
from suite.control import describe_plans
from suite.control.command import Command, job_name
from suite.control.folders import check_folders, refuse_equal
from suite.control.planning import refusal
from suite.control.targets.here import RunTarget
from suite.plan.job import Plan
from suite.preflight import check_machine


class DryRunTarget(RunTarget):
    """Prints the plans of the command without starting any process."""

    def refuse(self, plans: Sequence[Plan]) -> None:
        """Do nothing, because the target must print the plans before it raises an error.

        `execute` prints the plans and then raises the error.
        """

    def execute(self, plans: Sequence[Plan]) -> int:
        """Print the plans, and raise an error if the command cannot run.

        Raises:
            ValueError: The command cannot run.
        """
        command = self.command
        show_plans(
            command, plans, refusal(command.request, plans, self._agents is None), submits=False
        )
        jobs = [plan.job for plan in plans if plan.job is not None]
        largest = max(jobs, key=lambda job: job.template.settings.devices, default=None)
        for line in (
            check_machine.warnings_before(largest, on_agents=self._agents is not None)
            if largest
            else ()
        ):
            command.warn(localize_commands(line))
        return 0


def show_plans(
    command: Command, plans: Sequence[Plan], error: ValueError | None, submits: bool
) -> None:
    """Print the plans of a dry run, and check the folders of the jobs.

    Args:
        command: The command.
        plans: A plan for each job.
        error: Error to raise after the plans are printed, or None if the command can run.
        submits: True if the command would be submitted to SLURM.

    Raises:
        ValueError: The command cannot run, or its folders are in use.
    """
    # For a single plan, `error` already lists all findings.
    alone = error is not None and len(plans) == 1
    shown_plans = [plan._replace(findings=()) for plan in plans] if alone else plans
    names = [job_name(composed) for composed in command.request.jobs]
    full = command.config.dry_run == describe_plans.FULL
    named_plans = list(zip(names, shown_plans, strict=True))
    command.show(
        localize_commands(line)
        for line in describe_plans.lines(named_plans, command.output, submits, full)
    )
    if error is not None:
        raise error
    jobs = [plan.job for plan in plans if plan.job is not None]
    refuse_equal(jobs, command.output)
    check_folders(jobs, bool(command.config.resume), command.output, command.request.arguments)
