"""Context of a worker process: its rank and its devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerContext:
    """Rank and devices of this process among all processes of a run."""

    rank: int
    """Rank from 0 to `world_size` - 1. The process with rank 0 writes the log."""
    world_size: int
    """Number of worker processes of the run."""
    replica_ids: range
    """Global indices of the devices that this process drives, all on one machine."""
    num_replicas: int
    """Number of devices of the run."""
    devices: tuple[str, ...]
    """Name of each local device in its machine's numbering: `cpu`, `cuda:0`, …"""
    cores: tuple[int, ...] = ()
    """CPU cores to which this process is pinned. Empty if the process is not pinned."""
    cores_per_device: int = 1
    threads: int = 0
    """Number of threads for a device's operators, if the user set the number or foreign programs
    use some of the cores. 0 means one thread per core.
    """
    server: str = ""
    """`address:port` of the server processes for the workers (`update=async`, MXNet's KVStore).

    Empty if there is no server.
    """
    host: str = ""
    """Name of the machine. Empty if the run uses only one machine."""
    local_world_size: int = 0
    """Number of worker processes on this machine, including this process. 0 means all processes
    of the run.
    """

    @property
    def threads_per_device(self) -> int:
        """Return the number of threads that compute a device's operators on CPU cores."""
        return self.threads or self.cores_per_device
