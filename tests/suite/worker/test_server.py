"""Which processes serve a run."""

import contextlib
import subprocess
import sys
import time

from suite.launch.base import SERVER
from suite.worker.server import servers_of
from tests.helpers import wait_until


def test_servers_of_this_run_alone(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    waiting = [sys.executable, "-c", "import time; time.sleep(60)"]
    with contextlib.ExitStack() as ending:
        started = []
        for words in (
            [*SERVER, str(own / "run.json")],
            [*SERVER, str(other / "run.json")],
            ["-m", "suite.worker.main", str(own / "run.json")],
        ):
            process = subprocess.Popen([*waiting, *words])
            ending.callback(process.wait)
            ending.callback(process.kill)
            started.append(process.pid)
        wait_until("it is seen", lambda: [one.pid for one in servers_of(own)] == started[:1], 20)
        time.sleep(0.2)
        assert [one.pid for one in servers_of(own)] == started[:1]
        assert servers_of(tmp_path) == []
