"""Probes: functions below `tests` that run in a framework's environment and return arrays.

One process per framework runs all jobs of a session, because importing the framework takes longer
than most jobs. The module also compares the returned arrays.
"""

import atexit
import functools
import inspect
import itertools
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from suite.common import registry
from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import resolve
from suite.launch.network import free_ports
from testing.python_path import with_yaml
from tests.helpers import PROJECT

SERVE = PROJECT / "tests" / "probes" / "serve.py"
JOB_SECONDS = 1200
"""Timeout of a job. It is long, because the machine may be busy."""


class Processes:
    """`count` processes of a framework, with the environment that launchers set.

    The processes connect again for every job.
    """

    def __init__(self, framework, count=1):
        self._environment = resolve(
            EnvironmentConfig(), registry.load_framework(framework).environments["cpu"]
        )
        self._folder = tempfile.TemporaryDirectory(prefix=f"probes-{framework}-")
        self._numbers = itertools.count()
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        joined = framework == "tensorflow" and count > 1
        self._processes = [
            self._start(rank, count, addresses if joined else ()) for rank in range(count)
        ]

    def _start(self, rank, count, addresses):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
        variables |= {"TF_CONFIG": json.dumps(task)} if addresses else {}
        # The next session reuses the compiled kernels.
        compiled = str(PROJECT / "build" / "torchinductor")
        libraries = {"OMP_NUM_THREADS": "1", "MXNET_CPU_TEMP_COPY": "1", "PYTHONPATH": with_yaml()}
        # PyTorch skips its check of vector instructions, which would compile a program.
        libraries |= {"TORCHINDUCTOR_CACHE_DIR": compiled, "TORCHINDUCTOR_VEC_ISA_OK": "1"}
        self._start_file(rank).touch()
        with self._log(rank).open("wb") as log:
            return subprocess.Popen(
                self._environment.command(str(SERVE), str(self._start_file(rank))),
                env={**os.environ, **libraries, **variables},
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def _log(self, rank):
        return Path(self._folder.name) / f"process-{rank}.log"

    def _start_file(self, rank):
        """Return the file whose modification time is the start of the current job."""
        return Path(self._folder.name) / f"process-{rank}.begun"

    def ask(self, function, arguments):
        """Start a job in every process, and return the path of each process's arrays."""
        number, port = next(self._numbers), str(free_ports(1)[0])
        outs = [
            Path(self._folder.name) / f"{number}-{rank}.npz" for rank in range(len(self._processes))
        ]
        for process, out in zip(self._processes, outs, strict=True):
            job = {
                "function": function,
                "arguments": arguments,
                "out": str(out),
                "variables": {"MASTER_PORT": port},
            }
            print(json.dumps(job), file=process.stdin)
            process.stdin.flush()
        return outs

    def answers(self, outs):
        """Return the arrays of every process.

        Raises:
            AssertionError: A process failed or died. The message contains its output.
        """
        try:
            return [self._answer(rank, out) for rank, out in enumerate(outs)]
        except AssertionError:
            if len(outs) > 1:
                self.stop()  # The remaining processes would wait for the failed process.
            raise

    def _answer(self, rank, out):
        while not out.exists():
            dead = self._processes[rank].poll() is not None
            late = time.time() - self._start_file(rank).stat().st_mtime > JOB_SECONDS
            if (error := out.with_suffix(".error")).exists():
                raise AssertionError(error.read_text())
            if (dead or late) and not out.exists():
                self.stop()
                raise AssertionError(f"process {rank}:\n{self._log(rank).read_text()[-3000:]}")
            time.sleep(0.01)
        with np.load(out) as arrays:
            results = dict(arrays)
        out.unlink()
        return results

    def alive(self):
        """Return whether all processes accept jobs."""
        return all(process.poll() is None for process in self._processes)

    def stop(self):
        """Kill the processes."""
        for process in self._processes:
            process.kill()
            process.communicate()


_kept = {}


@atexit.register
def stop():
    """End the processes of this session."""
    for processes in _kept.values():
        processes.stop()


def _processes(framework, count):
    """Return the session's processes, which are restarted if one of them has ended."""
    if (framework, count) not in _kept or not _kept[framework, count].alive():
        _kept[framework, count] = Processes(framework, count)
    return _kept[framework, count]


@functools.cache
def begin_together(framework, count, function, *arguments):
    """Start a job in `count` connected processes; return a function that waits for the arrays."""
    processes = _processes(framework, count)
    outs = processes.ask(function, arguments)
    return functools.cache(lambda: processes.answers(outs))


def begin(framework, function, *arguments):
    """Start a job in the framework's process, and return a function that waits for its arrays."""
    wait = begin_together(framework, 1, function, *arguments)
    return lambda: wait()[0]


def begins(*jobs):
    """Return a fixture that starts the jobs of a module's selected tests concurrently.

    Each of `jobs` returns the arguments of `begin`, or None, for tests that are parametrized by all
    of its arguments, by name. Jobs of the expected values come first.
    """

    @pytest.fixture(scope="module", autouse=True)
    def start_all_jobs(request):
        for job in jobs:
            names = set(inspect.signature(job).parameters)
            for item in request.session.items:
                parameters = item.callspec.params if hasattr(item, "callspec") else {}
                if item.path == request.path and names <= set(parameters):
                    arguments = job(**{name: parameters[name] for name in names})
                    begin(*arguments) if arguments else None

    return start_all_jobs


def probe(framework, function, *arguments):
    """Return the arrays of `function` in a framework's environment, by name; computed once.

    `function` is `module.name` below `tests`.
    """
    return begin(framework, function, *arguments)()


def probe_json(framework, function, *arguments):
    """Return the decoded values of a function that returns JSON texts by name."""
    return {
        name: json.loads(str(text)) for name, text in probe(framework, function, *arguments).items()
    }


def probe_together(framework, count, function, *arguments):
    """Return the arrays of each of `count` processes, which are connected as one run."""
    return begin_together(framework, count, function, *arguments)()


def probe_alone(framework, function, *arguments):
    """Return the arrays of a new process that runs only this job."""
    processes = Processes(framework)
    try:
        return processes.answers(processes.ask(function, arguments))[0]
    finally:
        processes.stop()


def relative(found, wanted):
    """Return the largest difference divided by the largest value."""
    return np.abs(found - wanted).max() / np.abs(wanted).max()


def below(arrays, start):
    """Return the arrays whose names begin with `start`, with this prefix removed."""
    return {
        name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)
    }
