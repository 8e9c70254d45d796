"""Where a worker process stands in a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where this process stands among all processes and devices of a run."""

    process: int
    """0 … processes - 1; process 0 writes the log."""
    processes: int
    replicas: range
    """The global numbers of the devices that this process drives, all of one host."""
    replicas_total: int
    devices: tuple[str, ...]
    """One name per local replica, as its host numbers them: `cpu`, `cuda:0`, …"""
    cores: tuple[int, ...] = ()
    """The CPU cores this process is pinned to; empty: not pinned."""
    cores_per_device: int = 1
    threads: int = 0
    """Threads of a device's operators, where that was typed or others use some of its cores; 0: one for each core."""
    server: str = ""
    """`address:port` where processes that serve the workers are met (`update=async`, a store's); empty: there are none."""
    host: str = ""
    """Name of the machine that this process is on; empty: the only one."""
    processes_of_host: int = 0
    """Processes on that machine, this one among them; 0: all that there are."""

    @property
    def threads_per_device(self) -> int:
        """Threads that compute a device's operators, on CPU cores."""
        return self.threads or self.cores_per_device
