"""Probes (tests/probes) run in the frameworks' environments: command lines, places of several processes, comparison."""

import json
import os
import subprocess
import threading

import numpy as np

from suite.common import registry
from suite.environments.environment import resolve
from suite.launch.base import free_ports
from tests.helpers import PROJECT

PROBES = PROJECT / "tests" / "probes"


def command(framework, script, *arguments):
    """A command line in a framework's environment."""
    environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
    return environment.command(str(PROBES / script), *arguments)


def run(*processes, timeout=600):
    """Run the commands side by side, each with its place as the launchers give it."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(processes))]
    common = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": addresses[0].partition(":")[2]}
    common |= {"WORLD_SIZE": str(len(processes)), "PYTHONPATH": str(PROJECT), "MXNET_CPU_TEMP_COPY": "1"}
    started = []
    for rank, process in enumerate(processes):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        own = {"RANK": str(rank), **({"TF_CONFIG": json.dumps(task)} if len(processes) > 1 else {})}
        environment = {**os.environ, **common, **own}
        started.append(subprocess.Popen(process, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    timer = threading.Timer(timeout, lambda: [process.kill() for process in started])
    timer.start()
    outputs = [process.communicate()[0].decode() for process in started]
    timer.cancel()
    for process, output in zip(started, outputs, strict=True):
        assert process.returncode == 0, output[-3000:]


def relative(found, wanted):
    """Largest difference over the largest value."""
    return np.abs(found - wanted).max() / np.abs(wanted).max()
