"""Runs in a framework's environment: results of an image workload's trainer.

The weights and batches are synthetic.
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
"""Case that is too large for more than a single step."""


def digest(state):
    """Return the SHA-256 of names and bytes."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + np.ascontiguousarray(state[name]).tobytes())
    return found.hexdigest()


def under(folder, arrays):
    """Return the arrays with names below `folder`."""
    return {f"{folder}/{name}": value for name, value in arrays.items()}


def place_here(devices=None):
    """Return the worker context of this process, or a single worker with all `devices`.

    With several processes, the environment variables contain the rank, and each process has a
    device.
    """
    process, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    devices = devices or processes
    replicas = range(process, process + 1) if processes > 1 else range(devices)
    return WorkerContext(process, processes, replicas, devices, ("cpu",) * len(replicas))


def batches(module, workload, case, replicas):
    """Return the steps of the case, each with a batch for every replica."""
    count = 1 if case == ONE_STEP else STEPS
    return [
        [module.batch(workload, step, replica) for replica in replicas] for step in range(count)
    ]


def trained(name, framework, case, devices=1, compile="", most=STEPS):
    """Train at most `most` steps of the case `case` of the workload `name` and return the results.

    The results are:
    - `outputs/…` in evaluation mode with synthetic running statistics.
    - `losses` of the steps (a single step for `full`).
    - `training_loss` of a step's batch without an update.
    - `first/…` and `state/…`: the state after the first step and after all steps, except for
      `full`.
    - `gradient/…` of a batch in float64 if the framework supports it.
    - `digests` of the state after setup without and with warm-up, after the steps, and after
      load_state_dict(state_dict()).
    - `traces` if the framework counts them, else -1.
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
        "outputs", {name: np.concatenate([outputs[name] for outputs in seen]) for name in seen[0]}
    )
    trainer.load_state_dict(initial)
    found["training_loss"] = np.array(trainer.forward(steps[:1]).loss)
    trainer.load_state_dict(initial)  # the forward pass changed running statistics
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
        trainer.model.double()  # rounding cannot flip a ReLU or a mined negative
        found |= under("gradient", of_pytorch(trainer, steps[0][0]))
    trainer.close()
    return found
