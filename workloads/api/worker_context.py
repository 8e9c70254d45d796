"""Context of a worker process: its rank and its devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerContext:
    """Rank and local devices of this process among all processes of a run."""

    rank: int
    """Rank from 0 to `world_size` - 1. The process with rank 0 writes the log."""
    world_size: int
    """Number of worker processes of the run."""
    replica_ids: range
    """Global indices of the devices that this process drives. All these devices are on the same
    machine.
    """
    num_replicas: int
    """Number of devices of the run over all processes."""
    devices: tuple[str, ...]
    """Name of each local device in its machine's numbering: `cpu`, `cuda:0`, …"""
    cores: tuple[int, ...] = ()
    """CPU cores to which this process is pinned. The tuple is empty if the process is not
    pinned.
    """
    cores_per_device: int = 1
    threads: int = 0
    """Number of threads that compute a device's operators, or 0 for one thread per core. The
    number is positive if the user set it or if foreign programs use some of the cores.
    """
    server: str = ""
    """Address `address:port` of the server processes that the workers use (`update=async`, MXNet's
    KVStore).

    The string is empty if the run has no server.
    """
    host: str = ""
    """Name of the machine. The string is empty if the run uses only one machine."""
    local_world_size: int = 0
    """Number of worker processes on this machine, including this process. The value 0 means that
    all processes of the run are on this machine.
    """

    @property
    def threads_per_device(self) -> int:
        """Return the number of threads that compute a device's operators on CPU cores."""
        return self.threads or self.cores_per_device
