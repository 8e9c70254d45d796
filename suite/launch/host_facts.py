"""Description of a machine that its agent sends to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HostFacts:
    """Description of a machine and of the agent on it."""

    name: str
    """Name of the machine, as `platform.node()` returns it."""
    pid: int
    """Process id of the agent."""
    suite: str
    """Version of the suite.

    All versions of the suite send this field under the same name, so that the controller can report
    different versions.
    """
    python: str
    """Version of the agent's Python."""
    addresses: Mapping[str, str]
    """Maps the name of each network interface to its IPv4 address.

    The loopback interface is excluded.
    """
    cores: tuple[int, ...]
    """Numbers of the CPU cores that processes are allowed to use."""
    hardware: Mapping[str, Any]
    """Hardware of the machine, as `suite.machine.devices.hardware` returns it."""
    slurm_step: str = ""
    """SLURM step of the agent as `JOB.STEP`. The string is empty outside SLURM."""
    gpu_fault: str = ""
    """Reason why the GPUs cannot be used. The string is empty if they can be used."""
    private_network_fault: str = ""
    """Reason why the machine cannot create a private network for workers
    (suite/launch/private_network.py).

    The string is empty if a private network can be created.
    """
