"""Load the workload and the framework that a configuration selects."""

from __future__ import annotations

from suite.common import registry
from suite.common.registry import invalid_choice
from suite.common.run_config import RunConfig
from suite.launch.base import Framework
from suite.plan.unsupported import UnsupportedError
from workloads.api import Workload, frameworks_of


def load_workload_and_framework(config: RunConfig) -> tuple[type[Workload], Framework]:
    """Return the workload and the framework of a configuration.

    Raises ValueError if the workload or the framework cannot be loaded. Raises `UnsupportedError`
    if the workload has no trainer for the framework.
    """
    workload = registry.load_workload(config.workload_name)
    framework: Framework = registry.load_framework(config.framework.name)
    offered = frameworks_of(workload)
    if framework.name not in offered:
        raise UnsupportedError(
            str(
                invalid_choice(f"framework (for workload={workload.name})", framework.name, offered)
            )
        )
    return workload, framework
