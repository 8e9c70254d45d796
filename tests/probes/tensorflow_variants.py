"""Runs in TensorFlow's environment: image workloads in all variants of the trainer.

The case is `uneven`.
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
"""Map the name of a variant to its precision and `compile`.

`convolutions` computes 1×1 convolutions as convolutions, not as matrix products.
"""


def trained(name, variant):
    """Return the results of three steps of a variant.

    The results are: `losses`, `outputs/…` before the steps, `first/…` (running statistics after the
    first step), `traces`, `narrow` (whether a parameter is used in a narrower type), and `dtypes`
    of the state. SSD also has `empty` (the loss of a fourth step, whose images have no positive
    priors) and `after_empty` (the loss of the next step).
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
    trainer.load_state_dict({**initial, **module.statistics(workload)})  # as in image_trainers.py
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
            trainer.train([[batch]], 3).loss for batch in (empty, steps[0][0])
        )
    found |= {
        "narrow": trainer.model.parameter("conv1.weight").dtype.size < 4,
        "traces": trainer.traces,
    }
    trainer.close()
    return found


def without_positives(batch):
    """Return the batch with background only."""
    nothing = {name: np.zeros_like(batch.arrays[name]) for name in ("offset", "label")}
    return dataclasses.replace(batch, arrays={**batch.arrays, **nothing})
