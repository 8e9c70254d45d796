"""`launch=external`: strangers at the port of the first process, and a stranger in its place."""

import json
import socket
import threading

import pytest

from suite.control.hosts import external
from suite.control.hosts.external import Rank
from suite.launch.network import free_ports
from tests.helpers import wait_until
from tests.suite.control.hosts.test_launchers import LAUNCH

STRANGE = [
    b'{"proof":"\xc3\xa9"}',
    b'{"proof":"\\ud800"}',
    b"[" * 4000,
    b"[]",
    b"{}",
    b"GET / HTTP/1.1",
    b'{"proof":[1]}',
]


def connected(port):
    try:
        return socket.create_connection(("127.0.0.1", port), 5)
    except ConnectionRefusedError:
        return None


def test_strangers_do_not_end_the_wait_for_machines():
    (port,) = free_ports(1, "127.0.0.1")
    said = []

    def gather():
        with pytest.raises(ValueError, match=r"^nodes=2: 1 machine\(s\) came within 3 s") as error:
            external._gathered({**LAUNCH, "wait_seconds": 3.0}, 2, port, "secret")
        said.append(error)

    thread = threading.Thread(target=gather)
    thread.start()
    for line in STRANGE:
        with wait_until("the port", lambda: connected(port), 5) as stranger:
            stranger.recv(100)
            stranger.sendall(line + b"\n")
    thread.join(20)
    assert said


@pytest.mark.parametrize("line", [b'{"proof":"\xc3\xa9"}', b"[" * 4000])
def test_a_stranger_in_the_place_of_the_first_process(line):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(json.dumps({"nonce": "1"}).encode() + b"\n")
                connection.recv(1000)
                connection.sendall(line + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match=r"knows another SUITE_LAUNCH_TOKEN|does not speak as the first process"):
            external._serve(LAUNCH, Rank(1, 0, 2, "mpirun"), ("127.0.0.1", listener.getsockname()[1]), "secret")
        thread.join(5)
