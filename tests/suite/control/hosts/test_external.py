"""`launch=external`: strangers at the port of rank 0, and a stranger that answers as rank 0."""

import contextlib
import json
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from suite.control.hosts import external
from suite.control.hosts.external import Rank
from suite.launch.network import free_ports
from tests.helpers import wait_until
from tests.suite.control.hosts.test_launchers import LAUNCH

STRANGE = (
    b'{"proof":"\xc3\xa9"}',
    b'{"proof":"\\ud800"}',
    b'{"proof":[1]}',
    b"[" * 4000,
    b"[]",
    b"{}",
    b"GET / HTTP",
)


def connected(port):
    try:
        return socket.create_connection(("127.0.0.1", port), 60)
    except ConnectionRefusedError:
        return None


@pytest.fixture
def hurry(monkeypatch):
    """Return a function that moves the clock beyond the timeout of every wait for machines."""
    ahead = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(ahead), sleep=time.sleep)
    monkeypatch.setattr(external, "time", clock)
    return lambda: ahead.append(1000.0)


def gathering(count, results):
    """Start rank 0, which waits for `count` machines, and return its port and its thread.

    The result of the wait is appended to `results`.
    """
    (port,) = free_ports(1, "127.0.0.1")

    def gather():
        try:
            results.append(
                external._gathered(
                    replace(LAUNCH, wait_seconds=300.0), count, "127.0.0.1", port, "secret"
                )
            )
        except ValueError as error:
            results.append(error)

    thread = threading.Thread(target=gather)
    thread.start()
    wait_until("the port", lambda: connected(port)).close()
    return port, thread


def test_messages_of_strangers_do_not_end_the_wait_for_machines(hurry):
    results = []
    port, thread = gathering(2, results)
    for line in STRANGE:
        with connected(port) as stranger:
            stranger.recv(100)
            stranger.sendall(line + b"\n")
    assert not results
    hurry()
    thread.join(240)
    assert str(results[0]).startswith(
        "nodes=2: 1 machine(s), including this machine, connected within 300 s"
    )


@pytest.mark.parametrize("line", [b'{"proof":"\xc3\xa9"}', b"[" * 4000])
def test_a_stranger_that_answers_as_rank_0_is_refused(line):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(json.dumps({"nonce": "1"}).encode() + b"\n")
                connection.recv(1000)
                connection.sendall(line + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(
            ValueError, match=r"has a different SUITE_LAUNCH_TOKEN|does not answer as rank 0"
        ):
            external._serve(
                LAUNCH, Rank(1, 0, 2, "mpirun"), ("127.0.0.1", listener.getsockname()[1]), "secret"
            )
        thread.join(5)


def shaken(port, rank=1, proof=None):
    """Run an agent's side of the handshake. Return the answer and the proof that was sent."""
    with socket.create_connection(("127.0.0.1", port), 60) as agent:
        reader, writer = agent.makefile("rb"), agent.makefile("wb")
        challenge = json.loads(reader.readline())["nonce"]
        proof = proof or external._proof("secret", "agent", challenge, "of the agent", rank)
        external._say(writer, external.AgentProof(rank, "other", "of the agent", proof))
        return json.loads(reader.readline()), proof


def test_a_stranger_that_has_left_is_not_an_error():
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.close()
    external._hang_up(ours)  # runs in a thread, which would print a traceback


def test_silent_and_slow_strangers_do_not_prolong_the_wait(hurry, monkeypatch):
    """Check that the wait ends in time with more strangers than handshakes can run at once.

    One of the strangers sends a byte now and then.
    """
    monkeypatch.setattr(external, "HANDSHAKE_SECONDS", 0.5)
    results = []
    port, thread = gathering(2, results)
    strangers = [
        socket.create_connection(("127.0.0.1", port), 60)
        for _ in range(external.MAX_HANDSHAKES + 20)
    ]
    hurry()

    def over():
        with contextlib.suppress(OSError):
            strangers[0].sendall(b" ")
        return not thread.is_alive()

    wait_until("the wait's end", over)
    assert str(results[0]).startswith("nodes=2: 1 machine(s), including this machine, connected")
    for stranger in strangers:
        stranger.close()


def test_an_agent_connects_although_strangers_are_silent():
    results = []
    port, thread = gathering(2, results)
    strangers = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(13)]
    answer, _ = shaken(port)
    assert set(answer) == {"proof"}
    for stranger in strangers:
        stranger.close()
    thread.join(240)
    assert "machine other is lost: its agent closed the connection" in str(results[0]), (
        "it was taken, and went"
    )


def test_a_proof_is_good_for_one_connection_and_one_rank(hurry):
    results = []
    port, thread = gathering(3, results)
    assert shaken(port, rank=0)[0] == {"refused": "token"}, "the rank of the first process"
    answer, proof = shaken(port, rank=1)
    assert set(answer) == {"proof"}
    assert shaken(port, rank=2, proof=proof)[0] == {"refused": "token"}, "a replay"
    hurry()
    thread.join(240)
    assert str(results[0]).startswith("nodes=3: 2 machine(s), including this machine, connected")


def test_only_the_interface_to_the_machines_is_listened_on():
    assert external._listen_address({"MASTER_ADDR": "127.0.0.1"}) == "127.0.0.1"
    assert external._listen_address({"MASTER_ADDR": "192.0.2.1"}) == "", (
        "an address of another machine"
    )
    assert external._listen_address({}) == ""
