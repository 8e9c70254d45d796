"""Hosts as values: this machine by default, to run.json and back, and what does not fit together."""

import platform

import pytest

from suite.common.run_folder import machine_folder
from suite.environments.environment import Environment
from suite.launch.hosts import Host, hosts_of, recorded
from suite.launch.network import LOOPBACK
from tests.suite.two_hosts import HOSTS, make_run


def test_without_hosts_a_run_is_on_this_machine():
    environment = Environment("torch", (), "/python")
    (host,) = hosts_of(make_run(cores=(3, 5), devices=2), environment)
    assert host == Host(platform.node(), LOOPBACK, range(2), (0, 1), (3, 5), environment)
    assert host.is_here
    assert host.shows_processes


@pytest.mark.parametrize(
    ("name", "prefix", "shown"),
    [(platform.node(), (), True), (platform.node(), ("docker",), False), ("far", (), False)],
)
def test_whose_process_ids_mean_something_here(name, prefix, shown):
    host = Host(name, LOOPBACK, range(1), (0,), (), Environment("e", prefix, "python"))
    assert host.shows_processes is shown


def test_hosts_are_recorded_as_values_of_run_json():
    run = recorded(make_run(cores=(0,)))
    assert run.hosts == (
        {"name": platform.node(), "address": LOOPBACK, "first_replica": 0, "devices": [0], "cores": [0]},
    )
    assert recorded(run) == run
    two = hosts_of(make_run(HOSTS, devices=8))
    assert tuple(host.record() for host in two) == HOSTS
    assert [(host.name, host.replicas) for host in two] == [("node-a", range(4)), ("node-b", range(4, 8))]


@pytest.mark.parametrize(
    ("hosts", "devices", "expected"),
    [
        (HOSTS, 9, "must be numbered from 0 to 8"),
        (HOSTS[::-1], 8, "must be numbered from 0 to 7 in the order of the hosts"),
        ((HOSTS[0], {**HOSTS[1], "name": "node-a"}), 8, "one is named twice"),
        ((HOSTS[0], {**HOSTS[1], "devices": [0, 1]}), 6, "node-a 4, node-b 2 device"),
        ((HOSTS[0], {**HOSTS[1], "address": "127.0.1.1"}), 8,
         "host node-b: 127.0.1.1 is reached from that machine alone"),
        (({**HOSTS[0], "address": "localhost"}, HOSTS[1]), 8, "host node-a: localhost is reached"),
        (({**HOSTS[0], "address": "::1"}, HOSTS[1]), 8, "host node-a: ::1 is reached"),
    ],
)  # fmt: skip
def test_hosts_that_do_not_fit_together(hosts, devices, expected):
    with pytest.raises(ValueError, match=r"^[^\n]+\Z") as error:
        hosts_of(make_run(hosts, devices=devices))
    assert expected in str(error.value)


def test_each_of_several_machines_has_a_folder_for_what_it_says_of_itself(tmp_path):
    hosts = hosts_of(make_run(HOSTS, devices=8))
    assert [machine_folder(tmp_path, host.name, len(hosts)) for host in hosts] == [
        tmp_path / "node-a",
        tmp_path / "node-b",
    ]
    assert machine_folder(tmp_path, hosts[0].name, 1) == tmp_path
