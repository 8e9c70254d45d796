"""Private networks of runs, and machines on which no private network can be created."""

import os
import socket
import subprocess
import sys

import pytest

from suite.launch import children, private_network
from suite.launch.base import needs_private_network
from suite.launch.mxnet import MXNET
from suite.launch.private_network import NETWORK_VARIABLE, PrivateNetwork, check_network
from suite.launch.pytorch import PYTORCH
from suite.launch.tensorflow import TENSORFLOW
from tests.helpers import can_connect, wait_until
from tests.suite.two_hosts import HOSTS, make_run

SERVE = """
import pathlib, socket, sys
server = socket.create_server(("", 0))
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(str(server.getsockname()[1]))
path.with_suffix(".new").rename(path)
while True:
    server.accept()[0].sendall(b"served")
"""
ASK = """
import socket, sys
print(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10).recv(100).decode(), flush=True)
"""
needs_namespaces = pytest.mark.skipif(
    bool(private_network.unavailable_reason()), reason="this machine allows no network namespaces"
)


@pytest.fixture
def network():
    private = PrivateNetwork()
    yield private
    private.close()


@needs_namespaces
def test_only_processes_of_the_network_reach_each_other(tmp_path, network):
    started = []
    for name, where in (("private", network), ("open", None)):
        words = [sys.executable, "-c", SERVE, str(tmp_path / name)]
        started.append(children.start(words, os.environ, tmp_path / "server.log", tmp_path, where))
    try:
        ports = {}
        for name in ("private", "open"):
            wait_until("the port", (tmp_path / name).exists)
            ports[name] = int((tmp_path / name).read_text())
        for uid in {os.getuid(), 65534 if os.getuid() == 0 else os.getuid()}:
            assert can_connect(ports["open"], uid)
            assert not can_connect(ports["private"], uid)
        log = tmp_path / "client.log"
        words = [sys.executable, "-c", ASK, str(ports["private"])]
        assert children.start(words, os.environ, log, tmp_path, network).wait(60) == 0, (
            log.read_text()
        )
        assert log.read_text() == "served\n"
        assert children.start(words, os.environ, log, tmp_path).wait(60) != 0
    finally:
        for child in started:
            child.kill()
            child.wait()


@needs_namespaces
def test_a_process_of_the_network_writes_files_as_the_user_and_dies_with_its_parent(
    tmp_path, network
):
    child = children.start(
        ["sh", "-c", "id -u; touch made"], os.environ, tmp_path / "log", tmp_path, network
    )
    assert child.wait(60) == 0
    assert int((tmp_path / "log").read_text()) == os.getuid() == (tmp_path / "made").stat().st_uid
    code = f"""
import os, pathlib, sys
from suite.launch import children
from suite.launch.private_network import PrivateNetwork
folder = pathlib.Path({str(tmp_path)!r})
child = children.start(["sleep", "1000"], os.environ, folder / "log", folder, PrivateNetwork())
print(child.pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    wait_until("the child's end", lambda: not os.path.exists(f"/proc/{pid}"))


@needs_namespaces
def test_a_worker_outside_its_network_is_refused(network, monkeypatch):
    check_network({})
    check_network({NETWORK_VARIABLE: str(os.stat("/proc/self/ns/net").st_ino)})
    with pytest.raises(
        ValueError, match=r"not in the private network .* Set framework\.allow_open_grpc=true"
    ):
        check_network(network.env)


def test_the_kernels_reason_is_given_if_no_namespace_can_be_created(monkeypatch):
    monkeypatch.setattr(
        private_network, "_HELPER", "import sys; sys.exit('Operation not permitted')"
    )
    with pytest.raises(OSError, match=r"^Operation not permitted$"):
        PrivateNetwork()
    monkeypatch.setattr(private_network, "_HELPER", "import sys; sys.exit(3)")
    with pytest.raises(OSError, match=r"^exit code 3$"):
        PrivateNetwork()


def test_servers_of_tensorflow_on_one_machine_need_a_private_network():
    from dataclasses import replace

    def needs(framework, hosts=(), open_network=False, **changes):
        changes = {"devices": 2, "nodes": max(1, len(hosts)), "update": "sync", **changes}
        return needs_private_network(
            framework, replace(make_run(hosts, **changes), open_network=open_network)
        )

    assert needs(TENSORFLOW)
    assert needs(TENSORFLOW, devices=1, update="async")
    assert not needs(TENSORFLOW, devices=1)
    assert not needs(TENSORFLOW, open_network=True)
    assert not needs(TENSORFLOW, HOSTS, devices=8)
    assert not needs(PYTORCH)
    assert not needs(MXNET)


def test_a_port_without_a_server_is_not_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert can_connect(port, os.getuid())
    assert not can_connect(port, os.getuid())
