"""Run inside TensorFlow's environment: NeuMF on made-up data, as graph and compiled in pieces; prints JSON.

    RANK=0 WORLD_SIZE=1 python ncf_tensorflow_probe.py FOLDER [bf16]

FOLDER holds the arrays of synthetic_ncf.py. The last of an epoch's steps has one sample, so that with two processes one has
padding alone.
"""

import dataclasses
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np

from tests.workloads.ncf import synthetic_ncf
from workloads.api import Diverged
from workloads.ncf import tensorflow as neumf
from workloads.ncf.workload import NCF

MODEL = {"mf_dim": 16, "mlp_layer_sizes": [64, 64, 32, 16]}
ADAM = {"learning_rate": 0.003, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
PIECE = 300


def workload_of(folder, precision, processes):
    """The workload, with a batch size that leaves one sample to the last step."""
    facts = synthetic_ncf.write(folder)
    samples = 5 * facts.train_samples
    batch = next(size for size in range(samples // 12, samples) if samples % size == 1)
    settings = dataclasses.replace(
        synthetic_ncf.settings(folder, batch), framework="tensorflow", devices=processes, precision=precision,
        model=MODEL, hyperparameters={**ADAM, "batch_size_global": batch},
    )  # fmt: skip
    return NCF(settings, facts)


def losses_of(trainer, workload, place):
    """Loss of every step of an epoch, and the first evaluation batch's logits."""
    data = workload.open_data(place, 1)
    trainer.setup(workload.initial_weights(1))
    logits = next(trainer.predict(data.evaluation()))[1]["logits"]
    steps = list(data.train(0, workload.steps_per_epoch))
    assert steps[-1][0].samples_global == 1
    forward = trainer.forward([steps[0]]).loss
    losses = [trainer.train([batches], number).loss for number, batches in enumerate(steps)]
    data.close()
    return {"forward": forward, "losses": losses, "logits": logits[:2, :50].tolist(), "traces": trainer.traces}


def diverges(trainer, workload, place):
    """Whether a weight that is no number ends training."""
    trainer.setup(((name, np.full_like(value, np.nan)) for name, value in workload.initial_weights(1)), warm_up=False)
    try:
        trainer.train(itertools.islice(workload.open_data(place, 1).train(0, 3), 3), 0)
    except Diverged:
        return True
    return False


def main():
    process, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = Path(sys.argv[1]) / str(process)
    folder.mkdir(parents=True, exist_ok=True)
    precision = sys.argv[2] if len(sys.argv) > 2 else "fp32"
    workload = workload_of(folder, precision, processes)
    place = synthetic_ncf.place(process, range(process, process + 1), processes)
    neumf.CPU_PIECE, limit = PIECE, neumf.XLA_PARAMETERS
    found = {}
    # With several processes only once: TensorFlow joins a cluster at its start alone.
    for kind, parameters in (("graph", limit), ("compiled", 0))[: 2 if processes == 1 else 1]:
        neumf.XLA_PARAMETERS = parameters
        trainer = neumf.NCFTrainer(workload, place)
        found[kind] = losses_of(trainer, workload, place)
    arrays = (
        {"hit": np.arange(3 + process) % 2 == 0, "number": np.arange(2.0)}
        if process == 0
        else {"hit": np.ones(7, bool)}
    )
    gathered = trainer.gather(arrays)
    found["gathered"] = None if gathered is None else [{k: v.tolist() for k, v in part.items()} for part in gathered]
    found["broadcast"] = trainer.broadcast(2.5 + process)
    found["diverges"] = diverges(trainer, workload, place)
    print(json.dumps(found))
    trainer.close()


if __name__ == "__main__":
    main()
