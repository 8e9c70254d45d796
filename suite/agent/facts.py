"""Describes a machine to the controller before a run."""

from __future__ import annotations

import os
import platform
from typing import Any

from suite import __version__
from suite.launch import network, private_network
from suite.machine import devices


def facts() -> dict[str, Any]:
    """Return the first message of an agent.

    Returns:
        Host name, process id, versions, addresses, cores, SLURM step (empty outside SLURM), `gpu_fault` (why the GPUs cannot be
        used, empty if they can), `private_network_fault` (why workers cannot have a private network, empty if they can), and
        `hardware` (the result of `suite.machine.devices.hardware`).
    """
    step = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    fault = ""
    try:
        devices.gpus()
    except ValueError as error:
        fault = str(error)
    return {
        "name": platform.node(),
        "pid": os.getpid(),
        "suite": __version__,
        "python": platform.python_version(),
        "addresses": network.addresses(),
        "cores": list(devices.cpu_cores()),
        "slurm_step": ".".join(step) if all(step) else "",
        "gpu_fault": fault,
        "private_network_fault": private_network.unavailable_reason(),
        "hardware": devices.hardware(),
    }
