"""Checks that all machines agree before a run, and the network addresses to reach them.

The agents are fakes.
"""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from suite import __version__
from suite.agent.messages import CommandOutput, FileContent, Route
from suite.common.run_config import SystemConfig
from suite.control.caches import COMMAND_SECONDS
from suite.control.hosts import host_checks
from suite.control.hosts.agents import Agents
from suite.control.hosts.connection import AgentConnection, HostFailure
from suite.environments.environment import Environment
from suite.launch.host_facts import HostFacts
from tests.helpers import one_line
from tests.suite.control.hosts.test_launchers import LAUNCH


class Refused(NamedTuple):
    """Response of an agent that could not carry out a request."""

    error: str


class FakeLink:
    greet = AgentConnection.greet

    def __init__(self, name, addresses, answers=None, facts=None):
        self.name, self.answers, self.port, self.closed = name, answers or {}, None, False
        described = {
            "name": name,
            "pid": 1,
            "suite": __version__,
            "python": "3.11",
            "addresses": addresses,
        }
        described |= {"cores": (0, 1), "hardware": {"gpus": [], "cpu_model": "x"}}
        self.facts = HostFacts(**{**described, **(facts or {})})
        self.asked = []

    def send_request(self, request, **order):
        self.asked.append((request.name, order))
        return request.name, order

    def get_response(self, number, seconds):
        do, order = number
        self.waited = seconds
        answer = self.answers[do]
        answer = answer(**order) if callable(answer) else answer
        if isinstance(answer, Refused):
            raise ValueError(f"{self.name}: {answer.error}")
        return answer

    def call(self, request, **order):
        return self.get_response(self.send_request(request, **order), 1)

    def failure(self):
        return None

    def close(self):
        self.closed = True


def route(address, interface, peer="10.0.0.1"):
    return {"route": Route(peer, address, interface)}


def test_machines_are_reached_by_the_interface_that_leads_to_the_first():
    first = FakeLink("a", {"eth0": "192.168.0.1", "ib0": "10.0.0.1"})
    second = FakeLink("b", {"eth1": "192.168.0.2", "ib1": "10.0.0.2"}, route("10.0.0.2", "ib1"))
    nodes = Agents([first, second], LAUNCH).hosts
    found = [(node.name, node.address, node.interface) for node in nodes]
    assert found == [("a", "10.0.0.1", "ib0"), ("b", "10.0.0.2", "ib1")]
    assert second.asked == [("route", {"to": "a"}), ("route", {"to": "10.0.0.1"})]


def test_a_user_defined_interface_is_used_and_gpu_faults_are_reported():
    first = FakeLink("a", {"eth0": "10.0.0.1", "x": "1.1.1.1"}, facts={"gpu_fault": "no answer"})
    nodes = Agents(
        [first, FakeLink("b", {"eth0": "10.0.0.2", "x": "1.1.1.2"})], replace(LAUNCH, interface="x")
    ).hosts
    found = [(node.address, node.interface, node.gpu_fault) for node in nodes]
    assert found == [("1.1.1.1", "x", "no answer"), ("1.1.1.2", "x", "")]


def test_a_host_name_that_cannot_be_resolved_leads_to_the_only_address():
    answers = {"route": lambda to: Refused("unknown") if to == "alias" else LEADS}
    connections = [
        FakeLink("me@alias", {"eth0": "10.0.0.1"}),
        FakeLink("b", {"eth0": "10.0.0.2"}, answers),
    ]
    assert [node.address for node in Agents(connections, LAUNCH).hosts] == ["10.0.0.1", "10.0.0.2"]


LEADS = Route("10.0.0.1", "10.0.0.2", "eth0")
BAD = {
    "loopback": (route("127.0.0.1", "lo", "127.0.1.1"), {},
     "machine a: its name resolves to 127.0.1.1 on b, which is"),
    "elsewhere": (route("10.0.0.2", "eth0", "9.9.9.9"), {},
     "machine a: b connects to 9.9.9.9, but no interface of a has this address"),
    "same machine": (route("10.0.0.1", "eth0"), {"name": "a"},
     "launch: a, b are the same machine with the host name a"),
    "version": (route("10.0.0.2", "eth0"), {"suite": "0.0.9"},
     "machine b has version 0.0.9 of the suite"),
    "no route": ({"route": Refused("Name or service not known")}, {},
     "b: Name or service not known: the host name a cannot be resolved there"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_unsuitable_machines_are_refused_and_all_connections_closed(kind):
    answers, facts, message = BAD[kind]
    first = FakeLink("a", {"eth0": "10.0.0.1", "eth1": "10.1.0.1"})
    connections = [first, FakeLink("b", {"eth0": "10.0.0.2"}, answers, facts)]
    with pytest.raises(ValueError, match=one_line(message)):
        Agents(connections, LAUNCH)
    assert all(connection.closed for connection in connections)


def test_a_machine_that_does_not_connect_is_named_with_the_reason():
    connection, message = (
        FakeLink("b", {}),
        "machine b is lost: ssh ended with exit code 255: refused",
    )
    connection.facts, connection.failure = None, lambda: HostFailure("rank_died", message)
    with pytest.raises(ValueError, match=message):
        Agents([connection], LAUNCH)


TORCH = Environment("torch", (), "/python")
HERE = {"torch": "2.0", "numpy": "1"}


TUNED = {"XLA_FLAGS": "--a", "NCCL_DEBUG": "INFO"}


def asked(versions=HERE, env=TUNED, **changes):
    """Return a machine's response to the query for its packages and environment variables."""
    return CommandOutput(
        **{
            "code": 0,
            "output": json.dumps({"versions": versions, "env": env}),
            "errors": "",
            **changes,
        }
    )


def file_of(content):
    """Return a machine's response to a request for a file, or for a missing file if None."""
    return FileContent(None if content is None else content.encode())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (asked(), None),
        (asked({**HERE, "torch": "2.1"}),
         "machine b: environment torch: torch is 2.1 there and 2.0 on this machine. "
         "To make them equal, run: suite env create torch"),
        (asked(code=127, errors="sh: nothing\n"),
         "machine b: environment torch does not work there: sh: nothing"),
        (Refused("/python: No such file or directory"), "b: /python: No such file or directory"),
        (asked(output="hello"),
         "machine b: environment torch does not respond as a Python interpreter: 'hello'"),
        (asked(env={**TUNED, "NCCL_DEBUG": "WARN", "MXNET_SAFE_ACCUMULATION": "1",
                    "CUDA_HOME": "/b"}), None),
        (asked(env={"XLA_FLAGS": "--b"}),
         "machine b: environment variable XLA_FLAGS: XLA_FLAGS=--b there, "
         "XLA_FLAGS=--a on this machine. Set the same value on all machines"),
        (asked(env={}),
         "machine b: environment variable XLA_FLAGS: not set there, XLA_FLAGS=--a on this machine. "
         "Set the same value on all machines"),
        (asked(env={**TUNED, "TF_ENABLE_ONEDNN_OPTS": "0"}),
         "machine b: environment variable TF_ENABLE_ONEDNN_OPTS: TF_ENABLE_ONEDNN_OPTS=0 there, "
         "not set on this machine. Set the same value on all machines"),
    ],
)  # fmt: skip
def test_packages_and_variables_that_change_the_arithmetic_must_be_equal_on_all_machines(
    answer, message
):
    connections = [
        FakeLink("a", {}, {"run_command": asked()}),
        FakeLink("b", {}, {"run_command": answer}),
    ]
    with pytest.raises(ValueError, match=rf"^{re.escape(message)}\Z") if message else nullcontext():
        host_checks.check_environments(connections, TORCH, HERE, TUNED, {"MXNET_SAFE_ACCUMULATION"})


@pytest.mark.parametrize("digests", [("x", "x"), (None, None), ("x", "y"), ("x", None)])
def test_locks_must_be_equal_on_all_machines(digests):
    markers = [digest and json.dumps({"digest": digest}) for digest in digests]
    connections = [
        FakeLink(name, {}, {"read": file_of(marker)})
        for name, marker in zip("ab", markers, strict=True)
    ]
    message = "environment torch was not created from the same lock on a, b"
    with nullcontext() if digests[0] == digests[1] else pytest.raises(ValueError, match=message):
        host_checks.check_same_lock(connections, TORCH)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ('{"fingerprint": "x", "source": "there"}', None),
        (None, "machine a: data set ncf-demo is not in "),
        (
            '{"fingerprint": "y"}',
            r"machine a: data set ncf-demo in .* differs from the data set of this machine",
        ),
    ],
)
def test_data_must_be_equal_on_all_machines(tmp_path, manifest, message):
    (tmp_path / "manifest.json").write_text('{"fingerprint": "x", "source": "here"}')
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        host_checks.check_same_data(
            [FakeLink("a", {}, {"read": file_of(manifest)})], "ncf-demo", str(tmp_path)
        )


def job_with(command):
    settings = SimpleNamespace(dataset="movielens", data_dir="", nodes=1)
    return SimpleNamespace(
        template=SimpleNamespace(settings=settings),
        system=SystemConfig(cache_clear_command=[command]),
    )


def test_a_command_that_clears_caches_has_the_same_timeout_as_on_one_machine():
    connection = FakeLink(
        "a", {"eth0": "10.0.0.1"}, {"run_command": asked(output=json.dumps([True, ""]))}
    )
    assert Agents([connection], LAUNCH).clear(job_with("sleep")) == (True, [])
    ((_, order),) = connection.asked
    assert min(order["most_seconds"], connection.waited) > COMMAND_SECONDS


def test_a_failed_cache_command_ends_the_sweep_as_on_one_machine():
    answer = asked(code=1, output="", errors="noise\nsystem.cache_clear_command: no such file\n")
    with pytest.raises(ValueError, match=r"^machine a: system\.cache_clear_command: no such file$"):
        Agents([FakeLink("a", {"eth0": "10.0.0.1"}, {"run_command": answer})], LAUNCH).clear(
            job_with("none")
        )
