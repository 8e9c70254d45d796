"""The CPU cores near each GPU of a synthetic server."""

import os

import pytest

from suite.machine.gpu_cores import cores_near_gpus
from suite.machine.visible import VARIABLE
from tests.suite.machine.tree import tree


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Return the root of a server with two sockets and a GPU on each.

    The driver writes PCI addresses in upper case.
    """
    for address, cores in (("0000:17:00.0", "0-3,8"), ("0000:CA:00.0", "4-7")):
        (tmp_path / "proc/driver/nvidia/gpus" / address).mkdir(parents=True)
        tree(tmp_path, {f"sys/bus/pci/devices/{address.lower()}/local_cpulist": cores})
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 4, 5, 8})
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "numbers", "expected"),
    [
        (None, [0], {0, 1, 2, 8}), (None, [1], {4, 5}), (None, [0, 1], {0, 1, 2, 4, 5, 8}),
        ("1,0", [0], {4, 5}), ("GPU-12ab", [0], set()), ("7", [0], set()), (None, [2], set()),
    ],
)  # fmt: skip
def test_the_cores_of_a_gpus_socket_are_near_the_gpu(
    server, monkeypatch, visible, numbers, expected
):
    if visible is not None:
        monkeypatch.setenv(VARIABLE, visible)
    assert cores_near_gpus(numbers, server) == expected


@pytest.mark.parametrize("content", ["", "all", "0-x"])
def test_missing_or_invalid_core_lists_select_no_cores(server, content):
    (server / "sys/bus/pci/devices/0000:17:00.0/local_cpulist").write_text(content)
    assert cores_near_gpus([0], server) == set()
    assert cores_near_gpus([0], server / "elsewhere") == set()
