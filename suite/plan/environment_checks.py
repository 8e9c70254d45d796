"""Check the environment of a job.

The checks cover the packages in the environment, the environment variables of the workers, and open
network ports of the run's servers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from suite.common.run_config import RunConfig
from suite.common.runspec import RunSpec
from suite.environments.environment import Descriptions, Environment
from suite.launch import private_network
from suite.launch.base import variables_set_by_run
from suite.launch.hosts import assign_devices
from suite.launch.recorded_env import recorded_variables
from suite.machine import devices
from suite.plan.job import PartialJob
from suite.plan.unsupported import MissingResourceError
from workloads.api import DatasetInfo


def check_open_ports(config: RunConfig, draft: PartialJob, log: Callable[[str], object]) -> None:
    """Check whether other machines could connect to unauthenticated servers of the run.

    On a single machine, processes that listen on all network interfaces are started in a private
    network namespace. Private network namespaces are not available if the kernel forbids them, or
    in a container that uses the network of the machine.

    Args:
        config: The configuration of the job.
        draft: The partial job.
        log: Function that receives a warning if the run may start with open ports.

    Raises:
        MissingResourceError: A private network namespace is not available, and
            `framework.allow_open_grpc` is not set.
    """
    framework, settings, env = draft.framework, draft.settings, draft.environment
    if env is None or not framework.listens_everywhere(settings):
        return
    risk = (
        f"the servers of {framework.title or framework.name} have no authentication and listen on"
        " all interfaces: anyone who can connect to their ports can read and write files and run"
        " code as you"
    )
    if settings.nodes > 1 or config.framework.allow_open_grpc:
        log(
            f"warning: {risk}. Block access from outside with a firewall"
            " (docs/how-to/multiple_nodes.md)"
        )
        return
    if env.container is not None:
        reason = f"containers of environment={env.name} use the network of the machine"
    else:
        fault = (
            draft.hosts[0].private_network_fault
            if draft.hosts
            else private_network.unavailable_reason()
        )
        reason = f"this machine cannot make a private network for them ({fault})" if fault else ""
    if reason:
        raise MissingResourceError(
            f"gpus={settings.devices} framework={framework.name}: {risk}, and {reason}. Set gpus=1"
            " or a different framework, or, if only you can reach this machine's ports, set"
            " framework.allow_open_grpc=true"
        )


def describe_environment(
    draft: PartialJob, env: Environment, descriptions: Descriptions
) -> PartialJob:
    """Add package versions and environment variables to a draft.

    The Python interpreter of the environment reports the package versions and the environment
    variables.

    Args:
        draft: The partial job.
        env: Environment of the job.
        descriptions: Descriptions of environments, shared by all jobs of the command.

    Raises:
        ValueError: The Python interpreter of the environment does not respond.
    """
    packages = (*draft.framework.packages, *draft.plugins, "numpy", "mlperf-logging")
    description = descriptions.of(env, packages)
    set_by_run = variables_set_by_run(draft.framework, _launched(draft))
    recorded = recorded_variables(description.env, set_by_run)
    return replace(draft, versions=description.versions, environment_variables=recorded)


def _launched(draft: PartialJob) -> RunSpec:
    """Return a preliminary run specification of the draft for the framework's launcher.

    The specification contains only the fields that affect the commands of the run's processes.
    """
    settings = draft.settings
    on_cpu = settings.device == "cpu"
    return RunSpec(
        run_index=0,
        runs_required=0,
        folder="",
        settings=settings,
        dataset_info=DatasetInfo(0, 0, {}, ""),
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
        hosts=assign_devices(draft.hosts, settings.devices, on_cpu) if draft.hosts else (),
    )
