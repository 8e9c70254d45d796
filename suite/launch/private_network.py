"""Private network of a run on one machine. Only the run's processes can reach it.

The private network is a Linux network namespace with a loopback interface. The private network is
needed because TensorFlow's gRPC server has no authentication and listens on all interfaces. Anyone
who can reach the server's port can run code as the user. Inside a network namespace, only the run's
processes can reach the port. Root creates the network namespace directly. Users without root
privileges create the network namespace inside a user namespace that keeps their user id. This
module imports only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import subprocess
import sys
from collections.abc import Mapping

NETWORK_VARIABLE = "SUITE_PRIVATE_NETWORK"
"""Environment variable with the inode of the network namespace in which a worker must run."""
MAKING_SECONDS = 30.0
"""Timeout in seconds for the helper process that creates a network namespace."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_HELPER = """
import ctypes, fcntl, os, socket, struct, sys
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # unshare(2)
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40  # netdevice(7)
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.geteuid(), os.getegid()
if libc.unshare(CLONE_NEWNET) != 0:
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING))
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
print("ready", flush=True)
sys.stdin.read()
"""


class PrivateNetwork:
    """A Linux network namespace.

    The namespace exists until `close` is called and the last process in the namespace has ended.
    """

    def __init__(self) -> None:
        """Create the network namespace.

        Raises:
            OSError: This machine does not allow network namespaces. The error contains the kernel's
                reason.
        """
        self._user = self._network = -1
        if not os.path.exists("/proc/self/ns/net"):
            raise OSError("this system has no network namespaces")
        helper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert helper.stdout is not None
        try:
            if helper.stdout.readline() == "ready\n":
                self._network = os.open(f"/proc/{helper.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                if (
                    os.stat(f"/proc/{helper.pid}/ns/user").st_ino
                    != os.stat("/proc/self/ns/user").st_ino
                ):
                    self._user = os.open(f"/proc/{helper.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            try:
                _, errors = helper.communicate(timeout=MAKING_SECONDS)
            except subprocess.TimeoutExpired:
                helper.kill()
                _, errors = helper.communicate()
        if self._network < 0:
            lines = errors.strip().splitlines()
            raise OSError(lines[-1] if lines else f"exit code {helper.returncode}")

    @property
    def env(self) -> dict[str, str]:
        """Return the environment variable with which a worker checks its network namespace."""
        return {NETWORK_VARIABLE: str(os.fstat(self._network).st_ino)}

    def enter(self) -> None:
        """Move the calling process into the network namespace.

        The process must have a single thread.

        Raises:
            OSError: The kernel does not allow the move.
        """
        for descriptor in (self._user, self._network):
            if descriptor >= 0 and _LIBC.setns(descriptor, 0) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

    def close(self) -> None:
        """Release the network namespace.

        No further processes can enter the namespace. The kernel removes the namespace when its last
        process ends.
        """
        for descriptor in (self._user, self._network):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._user = self._network = -1


@functools.cache
def unavailable_reason() -> str:
    """Return the kernel's reason why this machine cannot create a private network.

    The string is empty if a private network can be created.
    """
    try:
        PrivateNetwork().close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def check_network(env: Mapping[str, str] = os.environ) -> None:
    """Check that a worker that was started in a private network still runs in it.

    Raises:
        ValueError: The worker runs in a different network namespace.
    """
    expected = env.get(NETWORK_VARIABLE)
    if expected and expected != str(os.stat("/proc/self/ns/net").st_ino):
        raise ValueError(
            "this process is not in the private network of its run: the command in"
            " environment.command_prefix leaves it. Set framework.allow_open_grpc=true if only you"
            " can reach this machine's ports"
        )
