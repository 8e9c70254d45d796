"""Description of a machine that its agent sends to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HostFacts:
    """Description of a machine and of the agent on it."""

    name: str
    """Result of `platform.node()`."""
    pid: int
    """Process id of the agent."""
    suite: str
    """Version of the suite.

    Every version sends it under this name, so that a different version can report the difference.
    """
    python: str
    """Version of the agent's Python."""
    addresses: Mapping[str, str]
    """IPv4 address of each network interface, by the name of the interface.

    Loopback is left out.
    """
    cores: tuple[int, ...]
    """Numbers of the CPU cores that processes may use."""
    hardware: Mapping[str, Any]
    """Result of `suite.machine.devices.hardware`."""
    slurm_step: str = ""
    """SLURM step of the agent as `JOB.STEP`. Empty outside SLURM."""
    gpu_fault: str = ""
    """Why the GPUs cannot be used. Empty: they can."""
    private_network_fault: str = ""
    """Why workers cannot have a private network (suite/launch/private_network.py).

    Empty: they can.
    """
