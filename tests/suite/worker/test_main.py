"""A worker before its first heartbeat."""

import os
import subprocess
import sys

import psutil

from tests.helpers import PROJECT, alive, wait_until

LAUNCHER = (
    "import subprocess, sys; subprocess.run([sys.executable, '-m', 'suite.worker.main',"
    " 'run.json'])"
)
SLOW_IMPORT = (
    "import os, pathlib, time; pathlib.Path('pid').write_text(f'{os.getpid()}\\n'); time.sleep(60)"
)


def test_a_worker_that_still_imports_ends_with_its_killed_launcher(tmp_path):
    (tmp_path / "numpy.py").write_text(SLOW_IMPORT)
    values = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PROJECT)])}
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER], cwd=tmp_path, env=values)
    pid = tmp_path / "pid"
    wait_until("the import", lambda: pid.exists() and pid.read_text().endswith("\n"), 60)
    worker = psutil.Process(int(pid.read_text()))
    launcher.kill()
    launcher.wait()
    try:
        wait_until("the worker's end", lambda: not alive(worker), 10)
    finally:
        if alive(worker):
            worker.kill()
