"""Choose the target that executes a command, or print the command's configuration."""

from __future__ import annotations

from suite.common.terminal import clean_lines
from suite.config.compose import Request
from suite.control.command import Command
from suite.control.hosts import kubernetes
from suite.control.hosts.open_hosts import agents_of, external_process_of, submits
from suite.control.targets.dry_run import DryRunTarget
from suite.control.targets.here import RunTarget
from suite.control.targets.other import KubernetesTarget, SlurmTarget
from suite.control.targets.serve_agent import AgentTarget
from suite.control.targets.target import Target
from suite.plan.print_config import settings_text


def print_configuration(request: Request) -> None:
    """Print the settings of each job as YAML, for `--cfg job`.

    The function neither creates nor checks folders.
    """
    texts = (settings_text(composed.config, request.shown or "") for composed in request.jobs)
    print(clean_lines("---\n".join(texts)), end="")


def choose_target(command: Command) -> Target:
    """Return the target that executes the command.

    If the command runs on several machines, the function first connects to the agents of the
    machines.

    Raises:
        ValueError: The `launch.*` settings are inconsistent, or a machine cannot be reached.
    """
    if kubernetes.is_meant(command.request.jobs):
        return KubernetesTarget(command)
    if submits(command.configs):
        return SlurmTarget(command)
    process = external_process_of(command.configs)
    if process is not None and not process.is_controller:
        return AgentTarget(command, process)
    agents = agents_of(command.configs, process)
    return DryRunTarget(command, agents) if command.config.dry_run else RunTarget(command, agents)
