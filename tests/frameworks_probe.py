"""Probes: functions below `tests` that run in a framework's environment and give arrays; comparison
of what they give.

A process that has imported a framework answers all jobs of a session: importing takes longer than
most of them.
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
"""From a job's start. A busy machine may take long; a job that never ends fails."""


class Processes:
    """`count` processes of a framework, each with its place as the launchers give it; every job
    joins them anew.
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
        place = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
        place |= {"TF_CONFIG": json.dumps(task)} if addresses else {}
        compiled = str(
            PROJECT / "build" / "torchinductor"
        )  # kernels of a session are there in the next one
        libraries = {"OMP_NUM_THREADS": "1", "MXNET_CPU_TEMP_COPY": "1", "PYTHONPATH": with_yaml()}
        # Whether vector instructions work is not tried by importing torch.
        libraries |= {"TORCHINDUCTOR_CACHE_DIR": compiled, "TORCHINDUCTOR_VEC_ISA_OK": "1"}
        self._begun(rank).touch()
        with self._log(rank).open("wb") as log:
            return subprocess.Popen(
                self._environment.command(str(SERVE), str(self._begun(rank))),
                env={**os.environ, **libraries, **place},
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def _log(self, rank):
        return Path(self._folder.name) / f"process-{rank}.log"

    def _begun(self, rank):
        """Written when a job starts: the time is that of the one that runs."""
        return Path(self._folder.name) / f"process-{rank}.begun"

    def ask(self, function, arguments):
        """Begin a job in every process: one path for the arrays of each."""
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
        """The arrays of every process.

        Raises AssertionError with what a process said if it failed or died.
        """
        try:
            return [self._answer(rank, out) for rank, out in enumerate(outs)]
        except AssertionError:
            if len(outs) > 1:
                self.stop()  # the others wait for the one that failed
            raise

    def _answer(self, rank, out):
        while not out.exists():
            dead = self._processes[rank].poll() is not None
            late = time.time() - self._begun(rank).stat().st_mtime > JOB_SECONDS
            if (error := out.with_suffix(".error")).exists():
                raise AssertionError(error.read_text())
            if (dead or late) and not out.exists():
                self.stop()
                raise AssertionError(f"process {rank}:\n{self._log(rank).read_text()[-3000:]}")
            time.sleep(0.01)
        with np.load(out) as arrays:
            found = dict(arrays)
        out.unlink()
        return found

    def alive(self):
        """Whether jobs can be given."""
        return all(process.poll() is None for process in self._processes)

    def stop(self):
        """End the processes at once."""
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
    """Those of this session; new ones where one of them has ended."""
    if (framework, count) not in _kept or not _kept[framework, count].alive():
        _kept[framework, count] = Processes(framework, count)
    return _kept[framework, count]


@functools.cache
def begin_together(framework, count, function, *arguments):
    """A job for the session's `count` processes of a framework, joined as one run; calling what
    this gives waits for them.
    """
    processes = _processes(framework, count)
    outs = processes.ask(function, arguments)
    return functools.cache(lambda: processes.answers(outs))


def begin(framework, function, *arguments):
    """A job for the session's process of a framework; calling what this gives waits for the arrays."""
    begun = begin_together(framework, 1, function, *arguments)
    return lambda: begun()[0]


def begins(*jobs):
    """A fixture of a module that begins what its chosen tests will ask for: the frameworks compute
    at the same time.

    Each of the jobs gives the arguments of `begin` for tests that are parametrised by all of its
    own arguments, by name, or None. What others are compared with comes first.
    """

    @pytest.fixture(scope="module", autouse=True)
    def all_at_once(request):
        for job in jobs:
            names = set(inspect.signature(job).parameters)
            for item in request.session.items:
                given = item.callspec.params if hasattr(item, "callspec") else {}
                if item.path == request.path and names <= set(given):
                    asked = job(**{name: given[name] for name in names})
                    begin(*asked) if asked else None

    return all_at_once


def probe(framework, function, *arguments):
    """What `function` (`module.name` below `tests`) gives in a framework's environment: arrays by
    name, computed once.
    """
    return begin(framework, function, *arguments)()


def probe_json(framework, function, *arguments):
    """The same for functions that give JSON by name: what it holds."""
    return {
        name: json.loads(str(text)) for name, text in probe(framework, function, *arguments).items()
    }


def probe_together(framework, count, function, *arguments):
    """The arrays of each of the session's `count` processes, which are joined as one run."""
    return begin_together(framework, count, function, *arguments)()


def probe_alone(framework, function, *arguments):
    """The arrays of a process that does nothing else."""
    processes = Processes(framework)
    try:
        return processes.answers(processes.ask(function, arguments))[0]
    finally:
        processes.stop()


def relative(found, wanted):
    """Largest difference over the largest value."""
    return np.abs(found - wanted).max() / np.abs(wanted).max()


def below(arrays, start):
    """The arrays whose names begin with `start`, without it."""
    return {
        name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)
    }
