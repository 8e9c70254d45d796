"""Runs in a framework's environment: results of NCF's trainers on small synthetic data.

Some functions compare different ways to compute them in PyTorch.
"""

import contextlib
import importlib
import itertools
import tempfile
import threading
from pathlib import Path
from unittest import mock

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic_ncf as synthetic
from tests.probes.image_trainers import digest, place_here, under
from workloads.api import NonFiniteLossError, WorkerContext

PIECE = 300
"""Samples per piece of a batch, so few that a batch has many pieces."""


def trained(framework, devices=1, precision="fp32", compiled=False):
    """Train an epoch and two steps, and return the results.

    The last step of the epoch has a single sample, so that one of two devices has an empty batch.
    With `compiled`, XLA compiles TensorFlow's steps in pieces. The results are:
    - `logits` of the first evaluation batches with their `users` and `items`.
    - `forward`: the loss of the first step without an update.
    - `losses` of the steps, and `mlp_user` after them.
    - `traces` if the framework counts them, else -1.
    - `digests` of the state after setup without and with warm-up, after training, after
      load_state_dict(state_dict()), and of the saved state after another step.
    - `diverges`: whether a weight that is NaN ends training.
    - `gathered/…` and `broadcast`, if there are two processes.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        in_pieces("tensorflow") if compiled else contextlib.nullcontext(),
    ):
        # The data set is missing until setup ends. This ensures that setup reads no data before the
        # clock of rules v0.7 starts.
        prepared, worker = Path(folder) / "prepared", place_here(devices)
        workload = synthetic.workload(
            prepared, framework, devices, precision, data_dir=str(Path(folder) / "data")
        )
        trainer = load_trainer("ncf", framework)(workload, worker)
        weights, digests = list(workload.initial_weights(7)), []
        for warmup in (False, True):
            trainer.setup(weights, warmup)
            digests.append(digest(trainer.state_dict()))
        (Path(folder) / "data").symlink_to(prepared)
        data = workload.open_data(worker, 7)
        predicted = list(itertools.islice(trainer.predict(data.evaluation()), 2))
        steps = list(data.train(0, workload.steps_per_epoch + 2))
        forward = trainer.forward(steps[:1]).loss
        losses = [trainer.train([batches], number).loss for number, batches in enumerate(steps)]
        state = trainer.state_dict()
        trainer.setup(weights, False)
        trainer.load_state_dict(state)
        digests += [digest(state), digest(trainer.state_dict())]
        trainer.train(steps[:1], 0)
        digests.append(digest(state))
        found = {
            "logits": np.concatenate([outputs["logits"] for _, outputs in predicted]),
            "users": np.concatenate([batch.arrays["user"] for batch, _ in predicted]),
            "items": np.concatenate([batch.arrays["item"] for batch, _ in predicted]),
            "forward": forward, "losses": losses, "mlp_user": state["mlp_user"], "digests": digests,
            "traces": getattr(trainer, "traces", -1), "diverges": diverges(trainer, weights, steps),
        }  # fmt: skip
        if worker.world_size > 1:
            found |= exchanged(trainer, worker.rank)
        data.close()
        trainer.close()
    return found


@contextlib.contextmanager
def in_pieces(framework):
    """Divide batches into pieces of PIECE samples.

    TensorFlow compiles the step even if the model is small.
    """
    neumf = importlib.import_module(f"workloads.ncf.{framework}")
    changed = {"CPU_PIECE": PIECE, **({"XLA_PARAMETERS": 0} if framework == "tensorflow" else {})}
    with mock.patch.multiple(neumf, **changed):
        yield neumf


def diverges(trainer, weights, steps):
    """Check whether a weight that is NaN ends training."""
    trainer.setup([(name, np.full_like(value, np.nan)) for name, value in weights], warmup=False)
    try:
        trainer.train(steps[:3], 0)
    except NonFiniteLossError:
        return True
    return False


def exchanged(trainer, process):
    """Return each process's arrays after a gather of different arrays, and a broadcast value.

    The arrays are ordered by process and name.
    """
    first = {"hit": np.arange(3) % 2 == 0, "number": np.arange(2.0)}
    gathered = trainer.gather(first if process == 0 else {"hit": np.ones(7, bool)}) or ()
    arrays = {
        f"{number}/{name}": array
        for number, result in enumerate(gathered)
        for name, array in result.items()
    }
    return {**under("gathered", arrays), "broadcast": trainer.broadcast(2.5 + process)}


def summed_by_table():
    """Return PyTorch's flat gradient of a step, summed over processes in two ways.

    `at_once` sums it as a whole, `by_table` table by table as on GPUs.
    """
    worker, found = place_here(), {}
    with tempfile.TemporaryDirectory() as folder:
        workload = synthetic.workload(Path(folder), "pytorch", worker.world_size)
        trainer = load_trainer("ncf", "pytorch")(workload, worker)
        trainer.setup(list(workload.initial_weights(7)), False)
        data = workload.open_data(worker, 7)
        (batch,) = next(data.train(0, 1))
        for name, by_table in (("at_once", False), ("by_table", True)):
            trainer.sums_by_table = by_table
            trainer.backward(batch)
            found[name] = trainer.gradient.numpy().copy()
            trainer.clear_gradients()
        data.close()
        trainer.close()
    return found


def on_cores(cores):
    """Train NeuMF in PyTorch on `cores` cores with four pieces per step.

    The results are: `digest` of the state after three steps, `logits`, `threads` (the number of
    threads that computed pieces), and `inside` and `outside` (the number of cores that an operator
    uses within pieces and elsewhere).
    """
    import torch

    seen, kept = set(), torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder, in_pieces("pytorch") as neumf:

        class Watched(neumf.NCFTrainer):
            def _differentiate(self, piece):
                seen.add((threading.get_ident(), torch.get_num_threads()))
                return super()._differentiate(piece)

        workload = synthetic.workload(
            Path(folder), cores_per_device=cores, global_batch_size=4 * PIECE
        )
        worker = WorkerContext(0, 1, range(1), 1, ("cpu",), cores_per_device=cores)
        trainer = Watched(workload, worker)
        trainer.setup(workload.initial_weights(1), warmup=False)
        data = workload.open_data(worker, 1)
        trainer.train(data.train(0, 3), 0)
        logits = next(trainer.predict(data.evaluation()))[1]["logits"]
        data.close()
        outside = torch.get_num_threads()
        torch.set_num_threads(kept)
    return {
        "digest": digest(trainer.state_dict()),
        "logits": logits,
        "threads": len({thread for thread, _ in seen}),
        "inside": sorted({count for _, count in seen}),
        "outside": outside,
    }
