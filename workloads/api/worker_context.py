"""Context of a worker process: its rank, and the devices that it drives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerContext:
    """Rank and devices of this process among all processes of a run."""

    rank: int
    """From 0 to `world_size` - 1. The process with rank 0 writes the log."""
    world_size: int
    """Number of worker processes of the run."""
    replica_ids: range
    """Global numbers of the devices that this process drives, all on one machine."""
    num_replicas: int
    """Number of devices of the run."""
    devices: tuple[str, ...]
    """Name of each local device, as its machine numbers them: `cpu`, `cuda:0`, …"""
    cores: tuple[int, ...] = ()
    """CPU cores to which this process is pinned. Empty: not pinned."""
    cores_per_device: int = 1
    threads: int = 0
    """Threads of a device's operators, if the user set them or other programs use some of the
    cores. 0: one thread per core.
    """
    server: str = ""
    """`address:port` of the processes that serve the workers (`update=async`, MXNet's store).

    Empty: no server.
    """
    host: str = ""
    """Name of the machine. Empty: the run is on one machine."""
    local_world_size: int = 0
    """Number of worker processes on this machine, including this process. 0: all processes of the
    run.
    """

    @property
    def threads_per_device(self) -> int:
        """Number of threads that compute a device's operators on CPU cores."""
        return self.threads or self.cores_per_device
