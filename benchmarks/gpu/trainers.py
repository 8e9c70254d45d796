"""Trainers of the seven workloads on any device, with small synthetic batches.

The unit tests use the same synthetic batches.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from suite.catalog.sets import named_sets
from suite.common.registry import load_trainer
from workloads.api import Arrays, Batch, Trainer, WorkerContext, Workload

CASES = {
    "resnet50": "uneven",
    "ssd": "uneven",
    "maskrcnn": "demo",
    "gnmt": "steps",
    "transformer": "steps",
    "ncf": "",
    "llama31_8b": "",
}
"""Maps a workload to the name of a case in its synthetic module in `testing/`."""
BATCHES = 10


@dataclasses.dataclass
class Case:
    """A workload with its initial weights and batches."""

    workload: Workload
    weights_of: Callable[[Any], Arrays]
    """Function that returns the initial weights of a workload. The shapes of the weights depend
    on the precision, because the vocabulary is padded in narrow precisions.
    """
    batches: list[Batch]
    evaluation: list[Batch]

    def trainer(self, device: str, precision: str) -> Trainer:
        """Return the trainer after its warm-up on a device."""
        settings = dataclasses.replace(
            self.workload.settings, precision=precision, device=device.partition(":")[0]
        )
        workload = type(self.workload)(settings, self.workload.dataset_info)
        trainer = load_trainer(settings.workload, "pytorch")(
            workload, WorkerContext(0, 1, range(1), 1, (device,))
        )
        trainer.setup(self.weights_of(workload).items(), True)
        return trainer


def case(name: str) -> Case:
    """Return the workload, weights, and batches of a workload in CASES."""
    os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"})
    if name == "ncf":
        return _ncf()
    if name == "llama31_8b":
        return _llama()
    module = importlib.import_module(f"testing.synthetic_{name.removesuffix('50')}")
    workload = module.workload(CASES[name], "pytorch")
    batches = [module.batch(workload, number) for number in range(BATCHES)]
    evaluation = module.evaluation(workload) if name in ("gnmt", "transformer") else batches[:1]
    return Case(workload, module.weights, batches, evaluation)


def _ncf() -> Case:
    from testing import synthetic_ncf as synthetic
    from workloads.ncf.settings import DEMO_MODEL
    from workloads.ncf.workload import NCF

    folder = Path(tempfile.mkdtemp())
    values = {name: option.value for name, option in named_sets(NCF)["demo"].items()}
    settings = dataclasses.replace(
        synthetic.settings(folder), model=DEMO_MODEL, devices=1, hyperparameters=values
    )
    workload: Any = NCF(settings, synthetic.write(folder))
    data = workload.open_data(synthetic.place(0, range(1), 1), 1)
    batches = [batch for (batch,), _ in zip(data.train(0, BATCHES), range(BATCHES), strict=False)]
    evaluation = [batch for (batch,) in data.evaluation()]
    data.close()
    return Case(workload, lambda task: dict(task.initial_weights(1)), batches, evaluation)


def _llama() -> Case:
    from testing import synthetic_llama as synthetic

    workload: Any = synthetic.workload()
    batches = [synthetic.step_batch(workload, step, 0) for step in range(BATCHES)]
    return Case(workload, lambda task: dict(task.initial_weights(1)), batches, batches[:1])


def far(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the relative distance ‖found − wanted‖ / ‖wanted‖ in float64.

    Returns infinity if the shapes differ.
    """
    if found.shape != wanted.shape:
        return float("inf")
    difference = np.linalg.norm(np.asarray(found, np.float64) - wanted)
    return float(difference / max(float(np.linalg.norm(np.asarray(wanted, np.float64))), 1e-30))
