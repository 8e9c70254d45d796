"""Run inside a framework's environment: what a ResNet trainer computes from made-up weights and batches, as .npz.

    python resnet_probe.py FRAMEWORK CASE OUT.npz [DEVICES [COMPILE]]

Holds: `logits` in evaluation mode with made-up running statistics; `losses` of ten steps; `training_loss` of a step's batch
without an update; every entry of `state()` after the steps under `state/…`; `digests` of the state after setup without and with
warm-up, and after load_state(state()); `traces`. With several processes (RANK, WORLD_SIZE set by the caller) process 0 writes.
"""

import hashlib
import os
import sys

import numpy as np

from suite.common.registry import load_trainer
from tests.workloads.resnet50 import synthetic_resnet
from workloads.api import Place


def digest(state):
    """SHA-256 over names and bytes."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + np.ascontiguousarray(state[name]).tobytes())
    return found.hexdigest()


def main():
    framework, case, out = sys.argv[1:4]
    devices = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    process, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    replicas = range(process, process + 1) if processes > 1 else range(devices)
    place = Place(process, processes, replicas, devices, ("cpu",) * len(replicas))
    compiled = {"compile": sys.argv[5]} if len(sys.argv) > 5 else {}
    workload = synthetic_resnet.workload(case, framework, devices, **compiled)
    trainer = load_trainer("resnet50", framework)(workload, place)
    weights = synthetic_resnet.weights(workload)
    found, digests = {}, []
    for warm_up in (False, True):
        trainer.setup(weights.items(), warm_up)
        digests.append(digest(trainer.state()))
    steps = [
        [synthetic_resnet.batch(workload, step, replica) for replica in replicas]
        for step in range(synthetic_resnet.STEPS)
    ]
    if case == "full":
        steps = steps[:1]
    initial = trainer.state()
    trainer.load_state({**initial, **synthetic_resnet.statistics(workload)})
    found["logits"] = np.concatenate([outputs["logits"] for _, outputs in trainer.predict(steps[:1])])
    trainer.load_state(initial)
    found["training_loss"] = np.array(trainer.forward(steps[:1]).loss)
    trainer.load_state(initial)  # a forward pass in training mode moves the running statistics
    found["losses"] = np.array([trainer.train([batches], number).loss for number, batches in enumerate(steps)])
    state = trainer.state()
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    digests += [digest(state), digest(trainer.state())]
    if process == 0:
        states = {f"state/{name}": value for name, value in state.items()} if case != "full" else {}
        np.savez(out, **found, **states, digests=np.array(digests), traces=np.array(getattr(trainer, "traces", -1)))
    trainer.close()


if __name__ == "__main__":
    main()
