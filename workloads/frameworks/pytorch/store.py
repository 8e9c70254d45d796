"""Where PyTorch's processes meet: a TCPStore that listens on one address."""

from __future__ import annotations

import socket
from datetime import timedelta

import torch.distributed as dist


def meeting(host: str, port: int, processes: int, serves: bool, patience: timedelta) -> dist.TCPStore:
    """The store of so many processes, which one of them serves; others wait for it as long as `patience`.

    PyTorch's own socket would listen on all interfaces, whatever `host` says; anyone who reaches it may write.
    """
    listening = socket.create_server((host, port)).detach() if serves else None
    return dist.TCPStore(host, port, processes, serves, patience, wait_for_workers=False, master_listen_fd=listening)
