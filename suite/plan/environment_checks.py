"""Checks the environment of a job: its packages, the variables of its workers, and ports that strangers can reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from suite.common.run_config import RunConfig
from suite.common.runspec import RunSpec
from suite.environments.environment import Descriptions, Environment
from suite.launch import private_network
from suite.launch.base import variables_set_by_run
from suite.launch.hosts import spread
from suite.launch.recorded_env import recorded_variables
from suite.machine import devices
from suite.plan.job import PartialJob
from suite.plan.unsupported import MissingResourceError
from workloads.api import Facts


def check_open_ports(config: RunConfig, draft: PartialJob, log: Callable[[str], object]) -> None:
    """Warn of servers that strangers can reach. Raise ValueError if that is not allowed and they cannot be shut off.

    On one machine, processes that listen everywhere are started in a private network. That is not possible where the kernel
    forbids it, and in a container, whose network is the machine's.
    """
    framework, settings, env = draft.framework, draft.settings, draft.environment
    if env is None or not framework.listens_everywhere(settings):
        return
    risk = (
        f"the servers of {framework.title or framework.name} have no authentication and listen on all interfaces: "
        f"whoever reaches their ports can read and write files and run code as you"
    )
    if settings.nodes > 1 or config.framework.allow_open_grpc:
        log(f"warning: {risk}; let a firewall keep strangers out (docs/several_machines.md)")
        return
    if env.container is not None:
        reason = f"environment={env.name} gives them the network of the machine"
    else:
        fault = draft.hosts[0].private_network_fault if draft.hosts else private_network.unavailable_reason()
        reason = f"this machine cannot make a private network for them ({fault})" if fault else ""
    if reason:
        raise MissingResourceError(
            f"gpus={settings.devices} framework={framework.name}: {risk}, and {reason}; allowed: gpus=1, another framework, "
            f"or, if only you can reach this machine's ports, set framework.allow_open_grpc=true"
        )


def describe_environment(draft: PartialJob, env: Environment, descriptions: Descriptions) -> PartialJob:
    """Return the draft with what its environment's Python finds there. Raises ValueError if that Python does not answer."""
    packages = (*draft.framework.packages, *draft.plugins, "numpy", "mlperf-logging")
    description = descriptions.of(env, packages)
    set_by_run = variables_set_by_run(draft.framework, _launched(draft))
    recorded = recorded_variables(description.variables, set_by_run)
    return replace(draft, versions=description.versions, environment_variables=recorded)


def _launched(draft: PartialJob) -> RunSpec:
    """Return a run of the draft as far as commands of its processes depend on it."""
    settings = draft.settings
    on_cpu = settings.device == "cpu"
    return RunSpec(
        run_index=0,
        runs_required=0,
        folder="",
        settings=settings,
        facts=Facts(0, 0, {}, ""),
        labels=(),
        division="",
        deviations=(),
        cores=(draft.hosts[0].cores if draft.hosts else devices.cpu_cores()) if on_cpu else (),
        cache_cleared=False,
        watchdog_seconds=0.0,
        setup_watchdog_seconds=0.0,
        identity={},
        environment={},
        versions={},
        git={},
        hardware={},
        hosts=spread(draft.hosts, settings.devices, on_cpu) if draft.hosts else (),
    )
