"""Description of a machine that its agent sends to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HostFacts:
    """Description of a machine and of the agent on the machine."""

    name: str
    """Name of the machine, as `platform.node()` returns it."""
    pid: int
    """Process id of the agent."""
    suite: str
    """Version of the suite on the machine.

    This field has the same name in all versions of the suite, so that the controller can report
    that the versions differ.
    """
    python: str
    """Version of the agent's Python."""
    addresses: Mapping[str, str]
    """Maps the name of each network interface to its IPv4 address.

    The loopback interface is excluded.
    """
    cores: tuple[int, ...]
    """Numbers of the CPU cores that processes are allowed to use on the machine."""
    hardware: Mapping[str, Any]
    """Hardware of the machine, as `suite.machine.devices.hardware` returns it."""
    slurm_step: str = ""
    """SLURM step of the agent as `JOB.STEP`. The string is empty outside SLURM."""
    gpu_fault: str = ""
    """Reason why the machine's GPUs cannot be used. The string is empty if the GPUs can be used."""
    private_network_fault: str = ""
    """Reason why the machine cannot create a private network for workers
    (suite/launch/private_network.py).

    The string is empty if a private network can be created.
    """
