"""Rendezvous store of the PyTorch processes.

Several processes use a TCPStore that listens at a single address. For a run with one process, the
store has no socket.
"""

from __future__ import annotations

import socket
from datetime import timedelta

import torch
import torch.distributed as dist

_LIBUV_TAKES_SOCKETS = torch.torch_version.TorchVersion(torch.__version__) >= "2.8"


def rendezvous_store(
    host: str, port: int, processes: int, serves: bool, patience: timedelta
) -> dist.Store:
    """Return the rendezvous store of `processes` processes.

    The process with `serves=True` runs the store's server. All other processes wait for the server
    for at most `patience`. The store listens only at `host`. PyTorch's default socket would listen
    on all network interfaces, and any computer that reaches the socket could write to the store.
    """
    if processes == 1:
        return dist.HashStore()
    listening = socket.create_server((host, port)).detach() if serves else None
    settings = {"wait_for_workers": False, "use_libuv": _LIBUV_TAKES_SOCKETS}
    return dist.TCPStore(
        host, port, processes, serves, patience, master_listen_fd=listening, **settings
    )
