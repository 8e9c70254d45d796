"""Probes: functions below `tests` that run in a framework's environment and give arrays; comparison of what they give.

A process that has imported a framework answers all jobs of a session: importing takes longer than most of them.
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

from suite.common import registry
from suite.environments.environment import resolve
from suite.launch.network import free_ports
from tests.helpers import PROJECT
from tests.python_path import with_yaml

SERVE = PROJECT / "tests" / "probes" / "serve.py"
JOB_SECONDS = 1200
"""A busy machine may take long; a job that never ends fails."""


class Processes:
    """`count` processes of a framework, each with its place as the launchers give it."""

    def __init__(self, framework, count=1):
        self._environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
        self._folder = tempfile.TemporaryDirectory(prefix=f"probes-{framework}-")
        self._numbers = itertools.count()
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self._processes = [self._start(rank, addresses) for rank in range(count)]

    def _start(self, rank, addresses):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        place = {"RANK": str(rank), "WORLD_SIZE": str(len(addresses)), "MASTER_ADDR": "127.0.0.1"}
        place |= {"MASTER_PORT": addresses[0].partition(":")[2]}
        place |= {"TF_CONFIG": json.dumps(task)} if len(addresses) > 1 else {}
        libraries = {"OMP_NUM_THREADS": "1", "MXNET_CPU_TEMP_COPY": "1", "PYTHONPATH": with_yaml()}
        with self._log(rank).open("wb") as log:
            return subprocess.Popen(
                self._environment.command(str(SERVE)), env={**os.environ, **libraries, **place},
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def _log(self, rank):
        return Path(self._folder.name) / f"process-{rank}.log"

    def ask(self, function, arguments):
        """Begin a job in every process: one path for the arrays of each."""
        number = next(self._numbers)
        outs = [Path(self._folder.name) / f"{number}-{rank}.npz" for rank in range(len(self._processes))]
        for process, out in zip(self._processes, outs, strict=True):
            print(json.dumps({"function": function, "arguments": arguments, "out": str(out)}), file=process.stdin)
            process.stdin.flush()
        return outs

    def answers(self, outs):
        """The arrays of every process. Raises AssertionError with what a process said if it failed or died."""
        deadline = time.monotonic() + JOB_SECONDS
        return [self._answer(rank, out, deadline) for rank, out in enumerate(outs)]

    def _answer(self, rank, out, deadline):
        while not out.exists():
            dead = self._processes[rank].poll() is not None
            if (error := out.with_suffix(".error")).exists():
                raise AssertionError(error.read_text())
            if (dead or time.monotonic() > deadline) and not out.exists():
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


@functools.cache
def begin(framework, function, *arguments):
    """A job for the session's process of a framework; calling what this gives waits for the arrays."""
    if framework not in _kept or not _kept[framework].alive():
        _kept[framework] = Processes(framework)
    processes = _kept[framework]
    outs = processes.ask(function, arguments)
    return functools.cache(lambda: processes.answers(outs)[0])


def begin_chosen(request, job):
    """Begin what the chosen tests of a module will ask for, so that the frameworks compute at the same time.

    `job` gives the arguments of `begin` for tests that are parametrised by all of its own arguments, by name.
    """
    names = set(inspect.signature(job).parameters)
    for item in request.session.items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if item.path == request.path and names <= set(given):
            begin(*job(**{name: given[name] for name in names}))


def probe(framework, function, *arguments):
    """What `function` (`module.name` below `tests`) gives in a framework's environment: arrays by name, computed once."""
    return begin(framework, function, *arguments)()


def probe_json(framework, function, *arguments):
    """The same for functions that give JSON by name: what it holds."""
    return {name: json.loads(str(text)) for name, text in probe(framework, function, *arguments).items()}


def probe_together(framework, count, function, *arguments):
    """The arrays of each of `count` new processes that are joined as one run."""
    processes = Processes(framework, count)
    try:
        return processes.answers(processes.ask(function, arguments))
    finally:
        processes.stop()


def relative(found, wanted):
    """Largest difference over the largest value."""
    return np.abs(found - wanted).max() / np.abs(wanted).max()


def below(arrays, start):
    """The arrays whose names begin with `start`, without it."""
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
