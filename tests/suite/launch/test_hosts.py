"""Hosts of a run: this machine by default, and inconsistent hosts."""

import platform
from dataclasses import replace

import pytest

from suite.common.run_folder import machine_folder
from suite.common.runspec import Host
from suite.launch.hosts import hosts_of
from suite.launch.network import LOOPBACK
from tests.helpers import one_line
from tests.suite.two_hosts import HOSTS, make_run


def test_without_hosts_a_run_is_on_this_machine():
    (host,) = hosts_of(make_run(cores=(3, 5), devices=2))
    assert host == Host(platform.node(), LOOPBACK, 0, (0, 1), (3, 5))
    assert host.is_here
    assert [host.replicas for host in hosts_of(make_run(HOSTS, devices=8))] == [
        range(4),
        range(4, 8),
    ]


@pytest.mark.parametrize(
    ("hosts", "devices", "expected"),
    [
        (HOSTS, 9, "must be numbered from 0 to 8"),
        (HOSTS[::-1], 8, "must be numbered from 0 to 7 in the order of the hosts"),
        ((HOSTS[0], replace(HOSTS[1], name="node-a")), 8, "a host is listed twice"),
        ((HOSTS[0], replace(HOSTS[1], devices=(0, 1))), 6, "node-a 4, node-b 2 devices"),
        ((HOSTS[0], replace(HOSTS[1], address="127.0.1.1")), 8,
         "host node-b: only the host itself can reach 127.0.1.1"),
        *(((replace(HOSTS[0], address=name), HOSTS[1]), 8,
           f"host node-a: only the host itself can reach {name}")
          for name in ("127.0.0.1", "::1", "localhost")),
    ],
)  # fmt: skip
def test_inconsistent_hosts_are_refused(hosts, devices, expected):
    with pytest.raises(ValueError, match=one_line(expected)):
        hosts_of(make_run(hosts, devices=devices))


def test_each_of_several_machines_has_a_folder_for_its_facts(tmp_path):
    assert [machine_folder(tmp_path, f"node-{letter}", 2) for letter in "ab"] == [
        tmp_path / "node-a",
        tmp_path / "node-b",
    ]
    assert machine_folder(tmp_path, "node-a", 1) == tmp_path
