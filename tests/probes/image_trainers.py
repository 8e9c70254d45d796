"""Run inside a framework's environment: what an image workload's trainer computes from synthetic
weights and batches.
"""

import hashlib
import importlib
import os

import numpy as np

from suite.common.registry import load_trainer
from tests.probes.gradients import of_pytorch
from workloads.api import WorkerContext

SYNTHETIC = {"resnet50": "testing.synthetic_resnet", "ssd": "testing.synthetic_ssd"}
STEPS = 10
ONE_STEP = "full"
"""The case that is too large for more than one step."""


def digest(state):
    """SHA-256 over names and bytes."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + np.ascontiguousarray(state[name]).tobytes())
    return found.hexdigest()


def under(folder, arrays):
    """The arrays with names below `folder`."""
    return {f"{folder}/{name}": value for name, value in arrays.items()}


def place_here(devices=None):
    """This process among those that its variables name, with a device each; alone with all
    `devices`.
    """
    process, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    devices = devices or processes
    replicas = range(process, process + 1) if processes > 1 else range(devices)
    return WorkerContext(process, processes, replicas, devices, ("cpu",) * len(replicas))


def batches(module, workload, case, replicas):
    """Steps of the case: a list of a batch for each replica."""
    count = 1 if case == ONE_STEP else STEPS
    return [
        [module.batch(workload, step, replica) for replica in replicas] for step in range(count)
    ]


def trained(name, framework, case, devices=1, compile="", most=STEPS):
    """The case `case` of the workload `name`, at most so many steps of it.

    `outputs/…` in evaluation mode with synthetic running statistics; `losses` of the steps (one of
    `full`); `training_loss` of a step's batch without an update; but of `full` the state after the
    first step under `first/…` and after the steps under `state/…`; `gradient/…` of a batch in
    float64, where the framework can; `digests` of the state after setup without and with warm-up,
    after the steps, and after load_state_dict(state()); `traces`, if counted.
    """
    module, worker = importlib.import_module(SYNTHETIC[name]), place_here(devices)
    workload = module.workload(case, framework, devices, compile)
    trainer = load_trainer(name, framework)(workload, worker)
    weights, digests = module.weights(workload), []
    for warmup in (False, True):
        trainer.setup(weights.items(), warmup)
        digests.append(digest(trainer.state_dict()))
    steps = batches(module, workload, case, worker.replica_ids)[:most]
    initial = trainer.state_dict()
    trainer.load_state_dict({**initial, **module.statistics(workload)})
    seen = [outputs for _, outputs in trainer.predict([steps[0]])]
    found = under(
        "outputs", {name: np.concatenate([one[name] for one in seen]) for name in seen[0]}
    )
    trainer.load_state_dict(initial)
    found["training_loss"] = np.array(trainer.forward(steps[:1]).loss)
    trainer.load_state_dict(initial)  # a forward pass in training mode moves the running statistics
    losses = [trainer.train(steps[:1], 0).loss]
    first = trainer.state_dict()
    losses += [trainer.train([step], number).loss for number, step in enumerate(steps[1:], start=1)]
    state = trainer.state_dict()
    trainer.setup(weights.items(), False)
    trainer.load_state_dict(state)
    digests += [digest(state), digest(trainer.state_dict())]
    found |= {
        "losses": np.array(losses),
        "digests": np.array(digests),
        "traces": getattr(trainer, "traces", -1),
    }
    if case != ONE_STEP:
        found |= {**under("first", first), **under("state", state)}
    if framework == "pytorch" and devices == 1:
        trainer.load_state_dict(initial)
        trainer.model.double()  # rounding moves no ReLU and no mined negative to the other side
        found |= under("gradient", of_pytorch(trainer, steps[0][0]))
    trainer.close()
    return found
