"""An agent as a local process, connected as the controller connects to it."""

import contextlib
import subprocess
import sys

from suite.agent.message_stream import MessageStream
from suite.control.hosts.connection import AgentConnection
from tests.helpers import PROJECT


@contextlib.contextmanager
def agent(tmp_path, lease_seconds=5.0, wait_seconds=20.0):
    process = subprocess.Popen(
        [sys.executable, "-m", "suite.agent", "--lease", str(lease_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    try:
        connection = AgentConnection(
            "here", MessageStream(process.stdout, process.stdin), lease_seconds, wait_seconds
        )
        while connection.facts is None:
            assert connection.failure() is None
            connection.listen(0.2)
        yield connection, process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
