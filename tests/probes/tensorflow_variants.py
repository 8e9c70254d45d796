"""Run inside TensorFlow's environment: the case `uneven` of image workloads in every way that the
trainer can compute it.
"""

import dataclasses
import importlib

import numpy as np

from suite.common.registry import load_trainer
from tests.probes.image_trainers import SYNTHETIC, place_here, under

VARIANTS = {
    "compiled": ("fp32", "on"),
    "convolutions": ("fp32", "off"),
    "bf16": ("bf16", "off"),
    "fp16": ("fp16", "off"),
}
"""Name to precision and `compile`.

`convolutions`: 1×1 convolutions are computed as such, not as products.
"""


def trained(name, variant):
    """`losses` of three steps, `outputs/…` before them, `first/…` of batch norm's after the first,
    `traces`, `narrow` (whether a parameter is used in a narrower type), `dtypes` of the state; of
    SSD `empty` (the loss of a fourth step, whose images have no positives) and `after_empty` (that
    of the next).
    """
    precision, compiled = VARIANTS[variant]
    module = importlib.import_module(SYNTHETIC[name])
    workload = module.workload("uneven", "tensorflow", compile=compiled, precision=precision)
    trainer = load_trainer(name, "tensorflow")(workload, place_here())
    if variant == "convolutions":
        trainer.build()
        trainer.model.as_products = False
    trainer.setup(module.weights(workload).items(), warmup=False)
    steps = [[module.batch(workload, number)] for number in range(3)]
    initial = trainer.state_dict()
    trainer.load_state_dict(
        {**initial, **module.statistics(workload)}
    )  # as image_trainers.py has them
    outputs = next(trainer.predict(steps[:1]))[1]
    trainer.load_state_dict(initial)
    losses = [trainer.train(steps[:1], 0).loss]
    state = trainer.state_dict()
    losses += [trainer.train([step], number).loss for number, step in enumerate(steps[1:], start=1)]
    found = {
        **under("outputs", outputs),
        **under("first", {name: state[name] for name in state if "running" in name}),
    }
    found |= {"losses": losses, "dtypes": sorted({str(value.dtype) for value in state.values()})}
    if name == "ssd":
        empty = without_positives(steps[0][0])
        found["empty"], found["after_empty"] = (
            trainer.train([[one]], 3).loss for one in (empty, steps[0][0])
        )
    found |= {
        "narrow": trainer.model.parameter("conv1.weight").dtype.size < 4,
        "traces": trainer.traces,
    }
    trainer.close()
    return found


def without_positives(batch):
    """The batch with nothing but background."""
    nothing = {name: np.zeros_like(batch.arrays[name]) for name in ("offset", "label")}
    return dataclasses.replace(batch, arrays={**batch.arrays, **nothing})
