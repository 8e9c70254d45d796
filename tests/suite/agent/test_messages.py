"""Messages between controller and agent: decoding, and errors for messages of a wrong version."""

import io
import json
import os

import pytest

from suite import __version__
from suite.agent.message_stream import MessageStream
from suite.agent.messages import (
    EVENTS,
    CommandOutput,
    ExitEvent,
    FileContent,
    FileEvent,
    FreePorts,
    GoneEvent,
    HeartbeatEvent,
    MemoryEvent,
    MessageError,
    OomEvent,
    Response,
    Route,
    SignalEvent,
    decode,
    decode_message,
    encode,
    encode_event,
)
from suite.control.hosts.connection import AgentConnection
from suite.launch.host_facts import HostFacts
from tests.helpers import wait_until

FACTS = HostFacts(
    "node1", 7, __version__, "3.11", {"eth0": "10.0.0.1"}, (0, 1), {"gpus": [], "memory_bytes": 1}
)
SENT = [
    FACTS,
    ExitEvent("worker-0", -9, "no space left in /scratch"),
    GoneEvent((3, 4)),
    HeartbeatEvent(".worker-0.json", "{}"),
    FileEvent("worker-0.log", 5, b"\x00\xff"),
    OomEvent(2),
    MemoryEvent("why"),
    SignalEvent("SIGTERM"),
]


@pytest.mark.parametrize("event", SENT, ids=lambda event: type(event).__name__)
def test_an_event_is_decoded_as_it_was_encoded(event):
    assert decode_message(json.loads(json.dumps(encode_event(event)))) == event


def test_the_examples_contain_every_kind_of_event():
    assert {type(event) for event in SENT} == set(EVENTS.values())


@pytest.mark.parametrize(
    "response",
    [
        CommandOutput(-15, "a", "b"),
        FileContent(None),
        FileContent(b"x"),
        FreePorts((1, 2)),
        Route("a", "b", ""),
    ],
)
def test_a_response_is_decoded_as_it_was_encoded(response):
    message = decode_message(json.loads(json.dumps({"answer": 3, "response": encode(response)})))
    assert isinstance(message, Response)
    assert decode(type(response), message.response) == response


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"exit": {"name": "a", "code": 0}}, "missing keys: .'full_disk'.*, unknown keys: "),
        ({"exit": {"name": "a", "code": 0, "full_disk": "", "host": 1}}, "unknown keys: .'host'"),
        ({"exit": {"name": "a", "code": True, "full_disk": ""}}, "code has a wrong type"),
        ({"exit": {"name": "a", "code": "0", "full_disk": ""}}, "code has a wrong type"),
        # A message of a version without classes for events.
        ({"exit": "worker-0", "code": 3, "full": ""}, "unknown event exit"),
        ({"gone": {"pids": [1, "2"]}}, "pids has a wrong type"),
        ({"gone": []}, "expected an object"),
        ({"file": {"name": "a", "offset": 0, "data": "no base64"}}, "expected base64"),
        ({"answer": None}, "answer has a wrong type"),
        ({"answer": 1, "response": []}, "response has a wrong type"),
        ({"dance": {}}, "unknown event dance"),
        ({}, "unknown event "),
    ],
)
def test_a_message_of_another_version_is_an_error(message, problem):
    with pytest.raises(MessageError, match=problem):
        decode_message(message)


def greeted(*messages):
    """Return the controller's error about an agent that sends these messages and then ends."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as writer:
        for message in messages:
            writer.write(json.dumps(message).encode() + b"\n")
        writer.flush()
        connection = AgentConnection(
            "node1", MessageStream(os.fdopen(reading, "rb"), io.BytesIO()), 5.0, 5.0
        )
        try:
            connection.greet()
        except ValueError as error:
            return str(error)
        connection.listen(0.2)
    return wait_until("the end", connection.failure).reason


@pytest.mark.parametrize(
    "facts",
    [
        {"suite": "0.0.1"},
        {**encode(FACTS), "suite": "0.0.1"},
        {**encode(FACTS), "suite": "0.0.1", "new": 1},
    ],
)
def test_a_description_of_another_version_names_both_versions(facts):
    message = (
        f"machine node1 has version 0.0.1 of the suite, and this machine has version {__version__}"
    )
    assert greeted({"facts": facts}) == f"{message}. Install the same version on all machines"
    assert (
        greeted({"facts": facts}, {"new": {}})
        == f"{message}. Install the same version on all machines"
    )


def test_an_unknown_message_of_the_same_version_names_a_different_copy():
    message = f"machine node1 has a different copy of version {__version__} of the suite "
    remedy = ". Install the same version on all machines"
    assert greeted({"facts": {**encode(FACTS), "new": 1}}).startswith(message)
    assert greeted(encode_event(FACTS), {"new": {}}) == f"{message}(unknown event new){remedy}"


def test_an_object_that_a_login_shell_prints_is_ignored():
    message = "machine node1 is lost: its agent closed the connection"
    assert greeted({"motd": "hello"}, encode_event(FACTS)) == message


def test_an_unknown_message_after_the_facts_of_another_version_names_both_versions():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as writer:
        for message in ({"facts": {**encode(FACTS), "suite": "0.0.1"}}, {"new": {}}):
            writer.write(json.dumps(message).encode() + b"\n")
    connection = AgentConnection(
        "node1", MessageStream(os.fdopen(reading, "rb"), io.BytesIO()), 5.0, 5.0
    )
    wait_until(
        "both messages", lambda: (connection.listen(0.1), connection.stream.ended.is_set())[1]
    )
    connection.listen()
    message = (
        f"machine node1 has version 0.0.1 of the suite, and this machine has version {__version__}"
    )
    assert connection.failure().reason == f"{message}. Install the same version on all machines"
