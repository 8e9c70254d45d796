"""Addresses of this machine, the route to another one, and free ports. Standard library only: agents use it too."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

LOOPBACK = "127.0.0.1"
"""The address of a host that is alone: its processes meet inside it."""
_SIOCGIFADDR = 0x8915  # netdevice(7)


def addresses() -> dict[str, str]:
    """Network interface to its IPv4 address; the loopback and those without one are left out."""
    address_by_name = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            address = socket.inet_ntoa(answer[20:24])
            if not is_loopback(address):
                address_by_name[name] = address
    return address_by_name


def loopback_interface() -> str:
    """The name of the interface of LOOPBACK; empty where none is known by its usual name."""
    return next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "")


def resolved(name: str) -> str:
    """The IPv4 address that this machine knows a name by. Raises OSError."""
    return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def route(address: str) -> tuple[str, str]:
    """(address, interface) from which this machine reaches an IPv4 address; nothing is sent. Raises OSError without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # the discard protocol: any port would do
        address = str(probe.getsockname()[0])
    return address, next(
        (name for name, its in addresses().items() if its == address),
        loopback_interface() if is_loopback(address) else "",
    )


def is_loopback(address: str) -> bool:
    """True for an address that is reached from this machine alone: 127.0.0.1, 127.0.1.1, ::1."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost" or address.startswith("localhost.")


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """Distinct TCP ports on an address of this machine that nobody listens on now. Raises OSError for another's address."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((address, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
