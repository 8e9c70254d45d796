"""Run inside a framework's environment: what NCF's trainers compute, and two of them in other ways."""

import dataclasses
import itertools
import tempfile
import threading
from pathlib import Path

import numpy as np

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import place_from_environment
from tests.probes.image_trainers import digest, place_here
from tests.workloads.ncf import synthetic_ncf
from workloads.api import Diverged, Place
from workloads.ncf.workload import NCF

MODEL = {"mf_dim": 16, "mlp_layer_sizes": [64, 64, 32, 16]}
ADAM = {"learning_rate": 0.003, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "max_epochs": 1}
PIECE = 300
"""Of a batch, in samples: so small that there are many."""


def trained(run_path):
    """The run written at `run_path`.

    `logits` of the first evaluation batches with their `users` and `items`; `digests` of the state after setup without and with
    warm-up, after training, after load_state(state()), and of the same state after another step; `losses` of two epochs, one
    step each at a time; `mlp_user` after them; `traces`, where they are counted.
    """
    run = read_run(Path(run_path))
    place = place_from_environment(run)
    # The data set is not there until setup is over: nothing of it can be read before the clock of rules v0.7.
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        workload = load_workload("ncf")(dataclasses.replace(run.settings, data_dir=str(data_dir)), run.facts)
        trainer = load_trainer("ncf", run.settings.framework)(workload, place)
        weights, digests = list(workload.initial_weights(run.settings.seed)), []
        for warm_up in (False, True):
            trainer.setup(weights, warm_up)
            digests.append(digest(trainer.state()))
        data_dir.symlink_to(run.settings.data_dir)
        data = workload.open_data(place, run.settings.seed)
        predicted = list(itertools.islice(trainer.predict(data.evaluation()), 3))
        steps = enumerate(data.train(0, 2 * workload.steps_per_epoch))
        losses = [trainer.train([batches], step).loss for step, batches in steps]
        state = trainer.state()
        trainer.setup(weights, False)
        trainer.load_state(state)
        digests += [digest(state), digest(trainer.state())]
        trainer.train(data.train(0, 1), 0)
        digests.append(digest(state))
        data.close()
    trainer.close()
    return {
        "logits": np.concatenate([outputs["logits"] for _, outputs in predicted]),
        "users": np.concatenate([batch.arrays["user"] for batch, _ in predicted]),
        "items": np.concatenate([batch.arrays["item"] for batch, _ in predicted]),
        "losses": losses,
        "digests": digests,
        "traces": getattr(trainer, "traces", -1),
        "mlp_user": state["mlp_user"],
    }


def summed_by_table(run_path):
    """PyTorch's flat gradient of a step, summed over processes `at once` and `by_table`, as on GPUs."""
    run, found = read_run(Path(run_path)), {}
    place = place_from_environment(run)
    workload = load_workload("ncf")(run.settings, run.facts)
    trainer = load_trainer("ncf", "pytorch")(workload, place)
    trainer.setup(list(workload.initial_weights(run.settings.seed)), False)
    data = workload.open_data(place, run.settings.seed)
    (batch,) = next(data.train(0, 1))
    for name, by_table in (("at_once", False), ("by_table", True)):
        trainer.sums_by_table = by_table
        trainer.backward(batch)
        found[name] = trainer.gradient.numpy().copy()
        trainer.clear_gradients()
    data.close()
    trainer.close()
    return found


def in_tensorflow(precision):
    """NeuMF on synthetic data: `graph/…`, and if there is one process `compiled/…` in pieces; then collectives.

    The last of an epoch's steps has one sample, so that with two processes one has padding alone. `gathered/NUMBER/…` in
    process 0, `broadcast`, `diverges`.
    """
    from workloads.ncf import tensorflow as neumf

    place = place_here()
    with tempfile.TemporaryDirectory() as folder:
        workload, found = workload_of(Path(folder), precision, place.processes), {}
        kept = neumf.CPU_PIECE, neumf.XLA_PARAMETERS
        try:
            neumf.CPU_PIECE = PIECE
            # With several processes only once: TensorFlow joins a cluster at its start alone.
            for kind, limit in (("graph", kept[1]), ("compiled", 0))[: 2 if place.processes == 1 else 1]:
                neumf.XLA_PARAMETERS = limit
                trainer = neumf.NCFTrainer(workload, place)
                found |= {f"{kind}/{name}": value for name, value in losses_of(trainer, workload, place).items()}
        finally:
            neumf.CPU_PIECE, neumf.XLA_PARAMETERS = kept
        first = {"hit": np.arange(3) % 2 == 0, "number": np.arange(2.0)}
        gathered = trainer.gather(first if place.process == 0 else {"hit": np.ones(7, bool)})
        for number, arrays in enumerate(gathered or ()):
            found |= {f"gathered/{number}/{name}": value for name, value in arrays.items()}
        found |= {"broadcast": trainer.broadcast(2.5 + place.process), "diverges": diverges(trainer, workload, place)}
        trainer.close()
    return found


def workload_of(folder, precision, processes):
    """The workload, with a batch size that leaves one sample to the last step."""
    facts = synthetic_ncf.write(folder)
    samples = 5 * facts.train_samples
    batch = next(size for size in range(samples // 12, samples) if samples % size == 1)
    settings = dataclasses.replace(
        synthetic_ncf.settings(folder, batch), framework="tensorflow", devices=processes, precision=precision,
        model=MODEL, hyperparameters=ADAM,
    )  # fmt: skip
    return NCF(settings, facts)


def on_cores(cores):
    """NeuMF in PyTorch on so many cores, four pieces a step: `digest` of the state after three steps, `logits`; `threads`, the
    number that computed pieces, `inside` and `outside`, the cores that an operator takes in them and beside them.
    """
    import torch

    from workloads.ncf import pytorch as neumf

    seen, kept = set(), (neumf.CPU_PIECE, torch.get_num_threads())

    class Watched(neumf.NCFTrainer):
        def _differentiate(self, piece):
            seen.add((threading.get_ident(), torch.get_num_threads()))
            return super()._differentiate(piece)

    try:
        neumf.CPU_PIECE = PIECE
        with tempfile.TemporaryDirectory() as folder:
            facts = synthetic_ncf.write(Path(folder))
            settings = dataclasses.replace(
                synthetic_ncf.settings(folder, 4 * PIECE), devices=1, cores_per_device=cores, model=MODEL,
                hyperparameters=ADAM,
            )  # fmt: skip
            workload, place = NCF(settings, facts), Place(0, 1, range(1), 1, ("cpu",), cores_per_device=cores)
            trainer = Watched(workload, place)
            trainer.setup(workload.initial_weights(1), warm_up=False)
            data = workload.open_data(place, 1)
            trainer.train(data.train(0, 3), 0)
            logits = next(trainer.predict(data.evaluation()))[1]["logits"]
            data.close()
        return {
            "digest": digest(trainer.state()),
            "logits": logits,
            "threads": len({thread for thread, _ in seen}),
            "inside": sorted({count for _, count in seen}),
            "outside": torch.get_num_threads(),
        }
    finally:
        neumf.CPU_PIECE = kept[0]
        torch.set_num_threads(kept[1])


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
    return {"forward": forward, "losses": losses, "logits": logits[:2, :50], "traces": trainer.traces}


def diverges(trainer, workload, place):
    """Whether a weight that is no number ends training."""
    trainer.setup(((name, np.full_like(value, np.nan)) for name, value in workload.initial_weights(1)), warm_up=False)
    try:
        trainer.train(itertools.islice(workload.open_data(place, 1).train(0, 3), 3), 0)
    except Diverged:
        return True
    return False
