"""Detection of the processes that serve a run."""

import contextlib
import subprocess
import sys
import time

from suite.launch.base import SERVER
from suite.worker.server import servers_of
from tests.helpers import wait_until


def test_only_servers_of_this_run_are_listed(tmp_path):
    run_folder, foreign_folder = tmp_path / "own", tmp_path / "other"
    waiting = [sys.executable, "-c", "import time; time.sleep(60)"]
    with contextlib.ExitStack() as ending:
        started = []
        for words in (
            [*SERVER, str(run_folder / "run.json")],
            [*SERVER, str(foreign_folder / "run.json")],
            ["-m", "suite.worker.main", str(run_folder / "run.json")],
        ):
            process = subprocess.Popen([*waiting, *words])
            ending.callback(process.wait)
            ending.callback(process.kill)
            started.append(process.pid)
        wait_until(
            "it is seen",
            lambda: [server.pid for server in servers_of(run_folder)] == started[:1],
            20,
        )
        time.sleep(0.2)
        assert [server.pid for server in servers_of(run_folder)] == started[:1]
        assert servers_of(tmp_path) == []
