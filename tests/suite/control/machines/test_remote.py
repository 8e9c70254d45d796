"""A machine behind an agent, as the supervisor sees it: what the agent tells becomes an answer."""

import json
from types import SimpleNamespace

from suite.control.machines.remote import RemoteMachine
from suite.launch.hosts import Host


class Link:
    """Says yes to every order."""

    def call(self, do, seconds=0.0, **order):
        return {"folder": "/scratch"}


def test_a_run_that_exhausts_another_machine_is_ended_in_its_name(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"device": "cpu"}}))
    link, environment = Link(), SimpleNamespace(argv_prefix=())
    host = Host("b", "10.0.0.2", range(1, 2), (0,), (0,), environment)
    machine = RemoteMachine(link, host, tmp_path, tmp_path / "b")
    assert machine.exhausts([1]) == ""
    link.tell({"exhausts": "ended before the machine's memory was exhausted"})
    assert machine.exhausts([1]) == "machine b: ended before the machine's memory was exhausted"
