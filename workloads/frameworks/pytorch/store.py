"""Rendezvous store of the PyTorch processes.

Several processes use a TCPStore that listens on a single address. A single process uses a store
without a socket.
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

    The process with `serves` serves the store. The remaining processes wait for it for at most
    `patience`. PyTorch's default socket would listen on all interfaces, whatever `host` is, and any
    peer that reaches it may write.
    """
    if processes == 1:
        return dist.HashStore()
    listening = socket.create_server((host, port)).detach() if serves else None
    settings = {"wait_for_workers": False, "use_libuv": _LIBUV_TAKES_SOCKETS}
    return dist.TCPStore(
        host, port, processes, serves, patience, master_listen_fd=listening, **settings
    )
