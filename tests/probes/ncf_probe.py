"""Run inside a framework's environment: what a trainer computes from canonical weights, as an .npz file.

    python ncf_probe.py RUN_JSON OUT.npz

Holds: logits of the first evaluation batches; SHA-256 of `state()` after setup with and without warm-up, and after
load_state(state()); losses of two epochs of one step each at a time; how often the training step was traced (TensorFlow).
The data set cannot be reached before setup is over.
"""

import dataclasses
import hashlib
import itertools
import os
import sys
from pathlib import Path

import numpy as np

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import free_ports, place_from_environment
from suite.worker.main import pin


def digest(state):
    """SHA-256 over names and bytes."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + np.ascontiguousarray(state[name]).tobytes())
    return found.hexdigest()


def main():
    run = read_run(Path(sys.argv[1]))
    os.environ.update(
        {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(free_ports(1)[0]), "MASTER_ADDR": "127.0.0.1"}
    )
    os.environ.pop("TF_CONFIG", None)
    place = place_from_environment(run)
    pin(place)
    # The data set is not there until setup is over: nothing of it can be read before the clock of rules v0.7.
    data_dir = Path(sys.argv[2]).with_suffix(".data")
    settings = dataclasses.replace(run.settings, data_dir=str(data_dir))
    workload = load_workload("ncf")(settings, run.facts)
    trainer = load_trainer("ncf", run.settings.framework)(workload, place)
    weights = list(workload.initial_weights(run.settings.seed))
    digests = []
    for warm_up in (False, True):
        trainer.setup(weights, warm_up)
        digests.append(digest(trainer.state()))
    data_dir.symlink_to(run.settings.data_dir)
    data = workload.open_data(place, run.settings.seed)
    predicted = list(itertools.islice(trainer.predict(data.evaluation()), 3))
    losses = []
    for step, batches in enumerate(data.train(0, 2 * workload.steps_per_epoch)):
        losses.append(trainer.train([batches], step).loss)
    state = trainer.state()
    trainer.setup(weights, False)
    trainer.load_state(state)
    digests += [digest(state), digest(trainer.state())]
    trainer.train(data.train(0, 1), 0)
    digests.append(digest(state))
    np.savez(
        sys.argv[2],
        logits=np.concatenate([outputs["logits"] for _, outputs in predicted]),
        users=np.concatenate([batch.arrays["user"] for batch, _ in predicted]),
        items=np.concatenate([batch.arrays["item"] for batch, _ in predicted]),
        losses=np.array(losses),
        digests=np.array(digests),
        traces=np.array(getattr(trainer, "traces", -1)),
        weight_names=np.array([name for name, _ in weights]),
        mlp_user=state["mlp_user"],
    )
    data.close()
    trainer.close()


if __name__ == "__main__":
    main()
