"""Determine a command's machines from the `launch.*` settings and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from suite.common.run_config import LaunchConfig, RunConfig
from suite.control.hosts import launchers
from suite.control.hosts.agents import Agents, open_agents
from suite.control.hosts.external import ExternalProcess, external_process, refuse_ranks


def launch_of(configs: Sequence[RunConfig]) -> LaunchConfig:
    """Return the `launch.*` settings, which apply to the whole command.

    Raises ValueError if the jobs of the command have different `launch.*` settings.
    """
    launch = configs[0].launch
    if any(config.launch != launch for config in configs):
        raise ValueError(
            "launch: the jobs of a command must have the same launch.* values. Set a single value"
            " for each key"
        )
    return launch


def submits(configs: Sequence[RunConfig], env: Mapping[str, str] = os.environ) -> bool:
    """Check whether the command must be submitted to SLURM.

    A command is submitted if it uses `launch=slurm` outside an allocation.
    """
    return bool(launch_of(configs).by == "slurm" and not launchers.in_allocation(env))


def external_process_of(
    configs: Sequence[RunConfig], env: Mapping[str, str] = os.environ
) -> ExternalProcess | None:
    """Return this process of `launch=external`, or None for all other launchers.

    Raises:
        ValueError: An environment variable is missing, or a launcher started several processes,
            each of which would run the command.
    """
    launch = launch_of(configs)
    if launchers.resolve_launcher_name(launch, env) == "external":
        return external_process(launch, env)
    refuse_ranks(env)
    return None


def agents_of(
    configs: Sequence[RunConfig],
    process: ExternalProcess | None = None,
    env: Mapping[str, str] = os.environ,
) -> Agents | None:
    """Return the agents of a command's machines, or None for this machine only.

    Args:
        configs: Configuration of each job.
        process: This process with `launch=external`, or None for other launchers. The process must
            be the controller.
        env: Environment variables.

    Raises:
        ValueError: The machines are not configured, or a machine cannot be reached.
    """
    launch = launch_of(configs)
    count = max((config.nodes for config in configs if config.gpus % config.nodes == 0), default=1)
    if process is not None:
        return process.gather(launch, count)
    by = launchers.resolve_launcher_name(launch, env)
    if by == "local" or (count == 1 and launch.by == "auto" and by == "slurm"):
        if launch.by == "local" and count > 1:
            raise ValueError(
                f"nodes={count}: launch=local uses only this machine. Set launch=slurm, launch=ssh,"
                " or launch=external"
            )
        return None
    return open_agents(launch, count, env)
