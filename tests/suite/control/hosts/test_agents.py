"""What machines must agree in before a run, and how each is reached: with agents that are only pretended."""

import json
from types import SimpleNamespace

import pytest

from suite import __version__
from suite.agent.wire import packed
from suite.control.caches import COMMAND_SECONDS
from suite.control.hosts import agents
from suite.control.hosts.agents import Agents
from suite.control.hosts.base import LostHost
from suite.environments.environment import Environment
from tests.suite.control.hosts.test_launchers import LAUNCH


class FakeLink:
    """Answers orders from a table; facts as `suite.agent.facts` gives them."""

    def __init__(self, name, addresses, answers=None, facts=None):
        self.name, self.answers, self.port, self.closed = name, answers or {}, None, False
        hardware = {"gpus": [], "cpu_model": "x"}
        self.facts = {
            "name": name,
            "suite": __version__,
            "addresses": addresses,
            "cores": [0, 1],
            "hardware": hardware,
            **(facts or {}),
        }
        self.asked = []

    def ask(self, do, **order):
        self.asked.append((do, order))
        return do, order

    def answer(self, number, seconds):
        do, order = number
        self.waited = seconds
        answer = self.answers[do]
        answer = answer(**order) if callable(answer) else answer
        if "error" in answer:
            raise ValueError(f"{self.name}: {answer['error']}")
        return answer

    def call(self, do, **order):
        return self.answer(self.ask(do, **order), 1)

    def lost(self):
        return None

    def close(self):
        self.closed = True


def route(address, interface, peer="10.0.0.1"):
    return {"route": {"peer": peer, "address": address, "interface": interface}}


def test_machines_are_reached_by_the_interface_that_leads_to_the_first():
    first = FakeLink("a", {"eth0": "192.168.0.1", "ib0": "10.0.0.1"})
    second = FakeLink("b", {"eth1": "192.168.0.2", "ib1": "10.0.0.2"}, route("10.0.0.2", "ib1"))
    nodes = Agents([first, second], LAUNCH).hosts
    assert [(node.name, node.address, node.interface) for node in nodes] == [
        *(("a", "10.0.0.1", "ib0"), ("b", "10.0.0.2", "ib1"))
    ]
    assert second.asked == [("route", {"to": "a"}), ("route", {"to": "10.0.0.1"})]


def test_why_gpus_of_a_machine_cannot_be_used_is_known_here():
    links = [FakeLink("a", {"eth0": "10.0.0.1"}, facts={"gpu_fault": "GPU 1 does not answer"})]
    assert [node.gpu_fault for node in Agents(links, LAUNCH).hosts] == ["GPU 1 does not answer"]


def test_an_interface_that_is_typed_wins():
    links = [FakeLink("a", {"eth0": "10.0.0.1", "x": "1.1.1.1"}), FakeLink("b", {"eth0": "10.0.0.2", "x": "1.1.1.2"})]
    nodes = Agents(links, {**LAUNCH, "interface": "x"}).hosts
    assert [(node.address, node.interface) for node in nodes] == [("1.1.1.1", "x"), ("1.1.1.2", "x")]


def test_a_name_that_says_nothing_over_there_leads_to_the_only_address():
    links = [
        FakeLink("me@alias", {"eth0": "10.0.0.1"}),
        FakeLink("b", {"eth0": "10.0.0.2"}, {"route": lambda to: {"error": "unknown"} if to == "alias" else LEADS}),
    ]
    assert [node.address for node in Agents(links, LAUNCH).hosts] == ["10.0.0.1", "10.0.0.2"]


LEADS = {"peer": "10.0.0.1", "address": "10.0.0.2", "interface": "eth0"}
BAD = {
    "loopback": (
        route("127.0.0.1", "lo", "127.0.1.1"),
        {},
        "machine a: its name leads to 127.0.1.1 on b, which is",
    ),
    "elsewhere": (
        route("10.0.0.2", "eth0", "9.9.9.9"),
        {},
        "machine a: b reaches it as 9.9.9.9, which none of its interfaces",
    ),
    "same machine": (route("10.0.0.1", "eth0"), {"name": "a"}, "launch: a, b are one machine, which calls itself a"),
    "version": (route("10.0.0.2", "eth0"), {"suite": "0.0.9"}, "machine b has version 0.0.9 of the suite"),
    "no route": (
        {"route": {"error": "Name or service not known"}},
        {},
        "b: Name or service not known: a is not known there",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_machines_that_are_not_fit_for_a_run(kind):
    answers, facts, said = BAD[kind]
    links = [
        FakeLink("a", {"eth0": "10.0.0.1", "eth1": "10.1.0.1"}),
        FakeLink("b", {"eth0": "10.0.0.2"}, answers, facts),
    ]
    with pytest.raises(ValueError, match=r"^[^\n]+\Z") as error:
        Agents(links, LAUNCH)
    assert said in str(error.value)
    assert all(link.closed for link in links)


def test_a_machine_that_does_not_come_is_named_with_the_reason():
    link = FakeLink("b", {})
    link.facts, link.lost = (
        None,
        lambda: LostHost("rank_died", "machine b is lost: ssh ended with exit code 255: refused"),
    )
    with pytest.raises(ValueError, match="machine b is lost: ssh ended with exit code 255: refused"):
        Agents([link], LAUNCH)


def test_packages_are_the_same_everywhere():
    said = {"code": 0, "output": json.dumps({"torch": "2.0", "numpy": "1"}), "errors": ""}
    other = {**said, "output": json.dumps({"torch": "2.1", "numpy": "1"})}
    broken = {"code": 127, "output": "", "errors": "sh: nothing\n"}
    environment = Environment("torch", (), "/python")
    here = {"torch": "2.0", "numpy": "1"}
    agents._same_versions([FakeLink("a", {}, {"ask": said})], environment, list(here), here)
    for answer, text in (
        (
            other,
            "machine b: torch is 2.1 in environment torch, here it is 2.0; make them equal: suite env create torch",
        ),
        (broken, "machine b: environment torch does not answer there: sh: nothing"),
        ({"error": "/python: No such file or directory"}, "b: /python: No such file or directory"),
    ):
        links = [FakeLink("a", {}, {"ask": said}), FakeLink("b", {}, {"ask": answer})]
        with pytest.raises(ValueError, match=r"^[^\n]+\Z") as error:
            agents._same_versions(links, environment, list(here), here)
        assert str(error.value) == text


def test_locks_are_the_same_everywhere():
    def links(*digests):
        return [
            FakeLink(name, {}, {"read": {"data": packed(json.dumps({"digest": digest}).encode()) if digest else None}})
            for name, digest in zip("ab", digests, strict=True)
        ]

    environment = Environment("torch", (), "/python")
    agents._same_lock(links("x", "x"), environment)
    agents._same_lock(links(None, None), environment)
    for digests in (("x", "y"), ("x", None)):
        with pytest.raises(ValueError, match="environment torch was not made from the same lock on a, b"):
            agents._same_lock(links(*digests), environment)


def test_data_are_the_same_everywhere(tmp_path):
    (tmp_path / "manifest.json").write_text('{"fingerprint": "x", "source": "here"}')

    def links(text):
        return [FakeLink("a", {}, {"read": {"data": None if text is None else packed(text.encode())}})]

    agents._same_data(links('{"fingerprint": "x", "source": "there"}'), "ncf-demo", str(tmp_path))
    with pytest.raises(ValueError, match="machine a: data set ncf-demo is not in "):
        agents._same_data(links(None), "ncf-demo", str(tmp_path))
    with pytest.raises(ValueError, match=r"machine a: data set ncf-demo in .* is not the one of this machine"):
        agents._same_data(links('{"fingerprint": "y"}'), "ncf-demo", str(tmp_path))


def test_a_command_that_clears_caches_has_the_time_that_it_has_on_one_machine():
    answers = {"ask": {"code": 0, "output": json.dumps({"cleared": True, "said": ""}), "errors": ""}}
    link = FakeLink("a", {"eth0": "10.0.0.1"}, answers)
    settings = SimpleNamespace(dataset="movielens", data_dir="", nodes=1)
    job = SimpleNamespace(template=SimpleNamespace(settings=settings), cache_clear={"cache_clear_command": ["sleep"]})
    assert Agents([link], LAUNCH).clear(job) == (True, [])
    ((_, order),) = link.asked
    assert min(order["most_seconds"], link.waited) > COMMAND_SECONDS


def test_caches_that_cannot_be_cleared_as_asked_end_the_sweep_as_on_one_machine():
    answers = {"ask": {"code": 1, "output": "", "errors": "noise\nsystem.cache_clear_command: no such file\n"}}
    settings = SimpleNamespace(dataset="movielens", data_dir="", nodes=1)
    job = SimpleNamespace(template=SimpleNamespace(settings=settings), cache_clear={"cache_clear_command": ["none"]})
    with pytest.raises(ValueError, match=r"^machine a: system\.cache_clear_command: no such file$"):
        Agents([FakeLink("a", {"eth0": "10.0.0.1"}, answers)], LAUNCH).clear(job)
