"""Targets for SLURM and Kubernetes, which do not run jobs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from suite.control.hosts import kubernetes
from suite.control.hosts.submit import needs_gpus, submit
from suite.control.planning import plan_all, refusal, refuse
from suite.control.targets.dry_run import show_plans
from suite.control.targets.target import Target
from suite.plan.capacity import TooLarge
from suite.plan.job import Plan
from suite.plan.sweep_commands import record_command
from suite.plan.unsupported import MissingResourceError


class KubernetesTarget(Target):
    """Writes the Kubernetes manifest of a command, and optionally submits the manifest.

    The manifest is submitted if `launch.kubernetes.submit` is set. The jobs of the command are
    planned inside the pods, not on this machine.
    """

    def execute(self, plans: Sequence[Plan]) -> int:
        request = self.command.request
        self.command.show(
            kubernetes.hand_over(request.arguments, request.jobs, self.command.output)
        )
        return 0


class SlurmTarget(Target):
    """Submits the command to SLURM, or prints the command's plans in a dry run."""

    def plan(self) -> list[Plan]:
        """Return the plans without the findings that only concern this machine.

        This machine is a login node, on which the jobs do not run.
        """
        request = self.command.request
        jobs = [
            (
                replace(composed, config=replace(composed.config, device="cuda"))
                if needs_gpus(composed.config)
                else composed
            )
            for composed in request.jobs
        ]
        plans = plan_all(replace(request, jobs=tuple(jobs)), self.command.output)
        local = (MissingResourceError, TooLarge)
        return [
            plan._replace(
                findings=tuple(error for error in plan.findings if not isinstance(error, local))
            )
            for plan in plans
        ]

    def refuse(self, plans: Sequence[Plan]) -> None:
        if not self.command.config.dry_run:
            refuse(self.command.request, plans, here=False)

    def execute(self, plans: Sequence[Plan]) -> int:
        command = self.command
        if command.config.dry_run:
            show_plans(command, plans, refusal(command.request, plans, here=False), submits=True)
            return 0
        lines = submit(command.request.arguments, command.configs, command.output)
        record_command(command.output, command.request.arguments)
        command.show(lines)
        return 0
