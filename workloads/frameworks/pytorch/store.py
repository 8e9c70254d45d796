"""Where PyTorch's processes meet: a TCPStore that listens on one address, or for a single process nothing that listens."""

from __future__ import annotations

import socket
from datetime import timedelta

import torch
import torch.distributed as dist

_LIBUV_TAKES_SOCKETS = torch.torch_version.TorchVersion(torch.__version__) >= "2.8"


def meeting(host: str, port: int, processes: int, serves: bool, patience: timedelta) -> dist.Store:
    """The store of so many processes, which one of them serves; others wait for it as long as `patience`.

    PyTorch's own socket would listen on all interfaces, whatever `host` says; anyone who reaches it may write.
    """
    if processes == 1:
        return dist.HashStore()
    listening = socket.create_server((host, port)).detach() if serves else None
    settings = {"wait_for_workers": False, "use_libuv": _LIBUV_TAKES_SOCKETS}
    return dist.TCPStore(host, port, processes, serves, patience, master_listen_fd=listening, **settings)
