"""Addresses of this machine, network routes, and free ports.

This module imports only the standard library.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

LOOPBACK = "127.0.0.1"
"""Address of the host if a run uses a single machine. The run's processes then communicate over the
loopback interface.
"""
_SIOCGIFADDR = 0x8915  # netdevice(7)


def addresses() -> dict[str, str]:
    """Return the IPv4 address of each network interface.

    The loopback interface and interfaces without an IPv4 address are excluded.
    """
    address_by_name = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(
                    probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15])
                )
            except OSError:
                continue
            address = socket.inet_ntoa(answer[20:24])
            if not is_loopback(address):
                address_by_name[name] = address
    return address_by_name


def loopback_interface() -> str:
    """Return the name of the loopback interface, `lo` or `lo0`.

    The string is empty if neither interface exists.
    """
    return next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "")


def resolved(name: str) -> str:
    """Resolve a host name on this machine, and return the IPv4 address.

    Raises:
        OSError: The name cannot be resolved.
    """
    return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def route(address: str) -> tuple[str, str]:
    """Return the local address and network interface with a route to an IPv4 address.

    The function sends no packet.

    Raises:
        OSError: No route to the address exists.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # 9 is the port of the discard protocol, but any port would work
        probe.connect((address, 9))
        address = str(probe.getsockname()[0])
    return address, next(
        (name for name, local_address in addresses().items() if local_address == address),
        loopback_interface() if is_loopback(address) else "",
    )


def is_loopback(address: str) -> bool:
    """Check whether an address is a loopback address, such as 127.0.0.1 or ::1."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost" or address.startswith("localhost.")


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """Return distinct TCP ports that are currently free on an address of this machine.

    Raises:
        OSError: The address is not an address of this machine.
    """
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((address, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
