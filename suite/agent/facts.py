"""Describe a machine to the controller before a run."""

from __future__ import annotations

import os
import platform

from suite import __version__
from suite.launch import network, private_network
from suite.launch.host_facts import HostFacts
from suite.machine import devices


def host_facts() -> HostFacts:
    """Return the description of this machine, which is the first message of an agent."""
    step = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    gpus, fault = list[devices.Gpu](), ""
    try:
        gpus = devices.gpus()
    except ValueError as error:
        fault = str(error)
    return HostFacts(
        name=platform.node(),
        pid=os.getpid(),
        suite=__version__,
        python=platform.python_version(),
        addresses=network.addresses(),
        cores=devices.cpu_cores(),
        hardware=devices.hardware(gpus),
        slurm_step=".".join(step) if all(step) else "",
        gpu_fault=fault,
        private_network_fault=private_network.unavailable_reason(),
    )
