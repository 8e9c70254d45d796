"""A machine behind an agent, from the supervisor's view: the agent's events become results."""

import json

from suite.agent.messages import FINISH, MemoryEvent, RunFolder
from suite.common.runspec import Host
from suite.control.hosts.connection import PendingResponse
from suite.control.hosts.remote_host import RemoteHost
from suite.environments.environment import Environment


class Link:
    def __init__(self):
        self.asked = []

    def send_request(self, request, **order):
        self.asked.append((request, order))
        return PendingResponse(len(self.asked), request)

    def failure(self):
        return None

    def call(self, request, seconds=0.0, **order):
        return RunFolder("/scratch")


def machine_of(connection, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"device": "cpu"}}))
    host = Host("b", "10.0.0.2", 1, (0,), (0,))
    return RemoteHost(
        connection, host, Environment("torch", (), "/python"), tmp_path, tmp_path / "b"
    )


def test_a_run_that_exhausts_another_machine_names_that_machine(tmp_path):
    connection = Link()
    machine = machine_of(connection, tmp_path)
    assert machine.exhausts([1]) == ""
    connection.on_event(MemoryEvent("ended before the machine's memory was exhausted"))
    assert machine.exhausts([1]) == "machine b: ended before the machine's memory was exhausted"


def test_containers_are_ended_by_the_request_that_ends_the_run(tmp_path):
    """Check that a single request ends the processes and then the containers.

    A separate request could be carried out first. The agent would then end the process that removes
    the containers.
    """
    connection = Link()
    machine_of(connection, tmp_path).terminate([], ("docker", "rm", "--force", "a"))
    assert connection.asked == [(FINISH, {"ending": ["docker", "rm", "--force", "a"]})]
