"""From a command to its machines: none but this one, an allocation's, named ones, or those that come by themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from suite.common.run_config import LaunchConfig, RunConfig
from suite.control.hosts import launchers
from suite.control.hosts.agents import Agents, open_agents
from suite.control.hosts.external import external_agents, refuse_ranks


class Elsewhere(Exception):
    """This process was not the controller, and what it had to do is done."""


def launch_of(configs: Sequence[RunConfig]) -> LaunchConfig:
    """`launch.*`, which holds for a whole command. Raises ValueError where its jobs differ in it."""
    launch = configs[0].launch
    if any(config.launch != launch for config in configs):
        raise ValueError("launch: one value of each of its keys for the whole command; leave out the others")
    return launch


def submits(configs: Sequence[RunConfig], variables: Mapping[str, str] = os.environ) -> bool:
    """Whether the command is to become a job of SLURM."""
    return bool(launch_of(configs).by == "slurm" and not launchers.in_allocation(variables))


def agents_of(configs: Sequence[RunConfig], variables: Mapping[str, str] = os.environ) -> Agents | None:
    """The machines of a command with an agent on each; None where it runs on this one, as ever.

    Raises ValueError in one line; Elsewhere in a process that was an agent, or had nothing to do.
    """
    launch = launch_of(configs)
    count = max((config.nodes for config in configs if config.gpus % config.nodes == 0), default=1)
    by = launchers.way(launch, variables)
    if by != "external":
        refuse_ranks(variables)
    if by == "local" or (count == 1 and launch.by == "auto" and by == "slurm"):
        if launch.by == "local" and count > 1:
            raise ValueError(f"nodes={count}: launch=local is this machine alone; type launch=slurm, ssh or external")
        return None
    if by == "external":
        agents = external_agents(launch, count, variables)
        if agents is None:
            raise Elsewhere
        return agents
    return open_agents(launch, count, variables)
