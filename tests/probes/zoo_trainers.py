"""Runs in a framework's environment: results of the zoo's trainers."""

import contextlib
import dataclasses
import gc
import os
import subprocess
import sys
import threading
from unittest import mock

import numpy as np

from suite.common.registry import load_trainer
from suite.launch.hosts import Rendezvous, hosts_of
from suite.launch.mxnet import store_variables
from suite.launch.network import free_ports
from tests.probes.image_trainers import place_here, under
from tests.suite.two_hosts import make_run
from tests.workloads.zoo import synthetic_zoo
from workloads.common.networks import layer_lists

STEPS = 5


def trained(model, framework, image_size, chosen="sgd"):
    """Return results of five steps with small images.

    They are: `losses`, `outputs` before the steps with running statistics, and `sizes/…` of the
    state.
    """
    workload = synthetic_zoo.workload(model, framework, image_size, chosen)
    trainer = load_trainer("zoo", framework)(workload, place_here())
    trainer.setup(synthetic_zoo.weights(workload).items(), False)
    initial = trainer.state_dict()
    steps = [[synthetic_zoo.batch(workload, number)] for number in range(STEPS)]
    trainer.load_state_dict({**initial, **synthetic_zoo.statistics(workload)})
    (seen,) = trainer.predict(steps[:1])
    trainer.load_state_dict(initial)
    losses = [trainer.train([step], number).loss for number, step in enumerate(steps)]
    sizes = {name: value.size for name, value in trainer.state_dict().items()}
    trainer.close()
    return {"losses": np.array(losses), "outputs": seen[1]["logits"], **under("sizes", sizes)}


def compared(model, framework, image_size=0, implementations=("suite", "stock")):
    """Return logits of the suite's list and of the framework's network for an image.

    Both have the same weights and statistics. `parameters/…` is the number of trained values of
    each.
    """
    found = {}
    for implementation in implementations:
        workload = synthetic_zoo.workload(
            model, framework, image_size, implementation=implementation
        )
        trainer = load_trainer("zoo", framework)(workload, place_here())
        trainer.setup(synthetic_zoo.weights(workload).items(), False)
        state = trainer.state_dict()
        trainer.load_state_dict({**state, **synthetic_zoo.statistics(workload)})
        (seen,) = trainer.predict([[synthetic_zoo.batch(workload, 0)]])
        found[f"logits/{implementation}"] = seen[1]["logits"]
        names = layer_lists.shapes(workload.network)
        found[f"parameters/{implementation}"] = sum(
            state[name].size for name in names if name in state
        )
        trainer.close()
        del trainer, state, seen
        gc.collect()
    return found


def asynchronous(framework):
    """Return results of the steps of `trained("littlecnn", …)` by a worker of `update=async`.

    They are losses, versions, staleness, and gathered arrays.
    """
    plain = synthetic_zoo.workload("littlecnn", framework, 32, "rmsprop_demo")
    workload = type(plain)(dataclasses.replace(plain.settings, update="async"), plain.dataset_info)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with _serving(framework, workload, address):
        trainer = load_trainer("zoo", framework)(
            workload, dataclasses.replace(place_here(), server=address)
        )
        trainer.setup(synthetic_zoo.weights(workload).items(), True)
        exchange, losses, versions = trainer.exchange, [], []
        for number in range(STEPS):
            versions.append(exchange.pull())
            losses.append(trainer.train([[synthetic_zoo.batch(workload, number)]], number).loss)
        versions.append(exchange.pull())
        gathered = trainer.gather(
            {"large": np.arange(300_000, dtype=np.float64), "none": np.zeros(0, np.int64)}
        )
        value = trainer.broadcast(1 / 3)
        trainer.close()
    found = {"losses": np.array(losses), "versions": np.array(versions), "value": np.array(value)}
    return {
        **found,
        "staleness": np.array(sorted(exchange.staleness.items())),
        **under("gathered", gathered[0]),
    }


@contextlib.contextmanager
def _serving(framework, workload, address):
    """Run the server of a run with a single worker.

    It runs in separate processes if the framework requires them.
    """
    if framework != "mxnet":
        serve = load_trainer("zoo", framework).run_parameter_server
        threading.Thread(target=serve, args=(workload, address, 1), daemon=True).start()
        yield
        return
    host = hosts_of(make_run())[0]
    rendezvous = Rendezvous((host,), (0,), int(address.rpartition(":")[2]))
    command = [sys.executable, "-c", "from workloads.frameworks.mxnet.server import serve; serve()"]
    variables = [
        store_variables(rendezvous, host, role, 1) for role in ("scheduler", "server", "worker")
    ]
    servers = [
        subprocess.Popen(command, env={**os.environ, **role_variables})
        for role_variables in variables[:2]
    ]
    with mock.patch.dict(os.environ, variables[2]):
        yield
    codes = [server.wait(60) for server in servers]  # they exit after the last worker
    assert codes == [0, 0], codes
