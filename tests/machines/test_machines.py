"""The simulated machines of tests are isolated, connected as configured, and removed afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from testing.machines import Machines, needs, slurm, ssh
from testing.machines.fixtures import require
from testing.machines.machines import UP_SECONDS
from tests.helpers import PROJECT, wait_until

HOST_FOLDERS = (
    "/run",
    "/etc",
    "/etc/ssh",
    "/etc/slurm",
    "/var/log",
    "/var/spool",
    "/var/lib",
    "~",
    "~/.ssh",
)
"""Folders of the host that daemons and clients would use outside of the machines' folder."""
DAEMONS = ("ssh", "slurm", "munge", "hub", "node")
"""Parts of the names of their files, because unrelated programs may write to these folders too."""
SERVE = (
    "import socket; s = socket.create_server(('', 5000)); c, _ = s.accept()\nwhile c.recv(1 << 20):"
    " pass"
)
SEND = (
    "import socket, sys; c = socket.create_connection((sys.argv[1], 5000));"
    " c.sendall(bytes(int(sys.argv[2])))"
)


def python(machine, code, *arguments, check=True):
    return machine.run([sys.executable, "-c", code, *map(str, arguments)], check=check)


def names_of_host():
    folders = [Path(name).expanduser() for name in HOST_FOLDERS]
    found = [str(path) for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return {name for name in found if any(word in name for word in DAEMONS)}


def test_machines_start_quickly_and_leave_no_files(tmp_path):
    require(ssh=True, slurm=True)
    names = names_of_host()
    start = time.monotonic()
    with Machines.up(tmp_path, 2) as machines:
        ssh.start(machines)
        slurm.start(machines)
        up = time.monotonic() - start
        machines.hub.start(["sleep", "1000"], tmp_path / "log")
        inits = [machine.init for machine in machines.all]
        seen = [process.pid for processes in machines.processes().values() for process in processes]
        assert len(seen) >= 3 + 1 + 2 + 1  # three sshd, slurmctld, two slurmd, and sleep
        stop = time.monotonic()
    assert up < UP_SECONDS
    assert time.monotonic() - stop < 5
    assert not any(psutil.pid_exists(pid) for pid in [*inits, *seen])
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert names_of_host() == names
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"log", "slurm", "ssh"}, "logs are kept for failures"


def test_nodes_share_only_the_configured_folders(machines):
    left, right = machines(2).nodes
    name = f"mine-{os.getpid()}"
    left.run(
        [
            "sh",
            "-c",
            f"echo left > /tmp/{name}; echo left > /dev/shm/{name}; echo left > /run/{name}",
        ]
    )
    for path in (f"/tmp/{name}", f"/dev/shm/{name}", f"/run/{name}"):
        assert right.run(["cat", path], check=False).returncode == 1
        assert not Path(path).exists()
    assert (left.tmp / name).read_text() == "left\n"
    assert (
        right.run(["cat", PROJECT / "run_suite.py"]).stdout
        == (PROJECT / "run_suite.py").read_text()
    )
    assert [node.run(["uname", "-n"]).stdout for node in (left, right)] == ["node1\n", "node2\n"]
    assert left.run(["ps", "-e", "-o", "pid="]).stdout.split()[0] == "1"
    assert (
        python(left, "import socket; print(socket.gethostbyname('node2'))").stdout == "10.77.0.2\n"
    )
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    seen = [json.loads(python(node, code).stdout) for node in (left, right)]
    cores = sorted(os.sched_getaffinity(0))
    assert seen == (
        [cores[: len(cores) // 2], cores[len(cores) // 2 :]] if len(cores) % 2 == 0 else seen
    )
    left.hosts_file.write_text("127.0.1.1 node2\n")
    assert (
        python(left, "import socket; print(socket.gethostbyname('node2'))").stdout == "127.0.1.1\n"
    )


def test_a_network_rate_is_limited(machines, tmp_path):
    left, right = machines(2, rate="20mbit").nodes
    server = right.start([sys.executable, "-c", SERVE], tmp_path / "log")
    wait_until("the server listens", lambda: right.run(["ss", "-Hltn", "sport = 5000"]).stdout)
    start = time.monotonic()
    python(left, SEND, "node2", 3_000_000)
    server.client.wait(30)
    # The token bucket sends its first 32 KiB without a limit.
    assert time.monotonic() - start > (3_000_000 - 32 * 1024) * 8 / 20e6


def test_machines_end_with_the_process_that_started_them(tmp_path):
    require()
    code = "import sys, time; from pathlib import Path; from testing.machines import Machines\n"
    code += "with Machines.up(Path(sys.argv[1]), 1): time.sleep(1000)"
    maker = subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=PROJECT)
    wait_until("the machines are up", (tmp_path / "machines.json").exists, 30)
    machines = Machines.load(tmp_path)
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    wait_until(
        "the machines are gone", lambda: not any(machine.is_up for machine in machines.all), 5
    )


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(needs, "SYSTEM_PATH", os.devnull)
    text = needs.missing(needs.SLURM)
    assert "slurmd" in text
    assert text.endswith("apt-get install iproute2 slurm-client slurmctld slurmd util-linux")
    with pytest.raises(FileNotFoundError, match="apt-get install openssh-server"):
        needs.program("sshd")
