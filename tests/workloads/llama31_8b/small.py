"""Expected values of the small model of `testing.synthetic_llama` in float64."""

import functools

import numpy as np

from testing import synthetic_llama as synthetic
from testing.synthetic import shaken
from tests.workloads.llama31_8b.llama_numpy import Sizes, losses_and_gradients
from workloads.common.optimizers import updated

SIZES = Sizes(3, 8, 2, 100, 8, 32)
STEPS = 10


@functools.cache
def gradients():
    """Return the loss of the first batch and its gradients, with norms that are not 1."""
    workload = synthetic.workload()
    weights = _wide(shaken(workload.initial_weights(synthetic.SEED)))
    return _of_batch(weights, synthetic.step_batch(workload, 0, 0))


@functools.cache
def steps():
    """Return the losses of ten steps with the initial weights, and the weights after them."""
    workload = synthetic.workload()
    settings, weights = (
        workload.update_settings(),
        _wide(dict(workload.initial_weights(synthetic.SEED))),
    )
    state = {name: [np.zeros_like(value)] * 2 for name, value in weights.items()}
    losses = []
    for step in range(STEPS):
        loss, found = _of_batch(weights, synthetic.step_batch(workload, step, 0))
        losses.append(loss)
        norm = np.sqrt(sum((value**2).sum() for value in found.values()))
        factor = min(1.0, settings.clip_norm / norm)
        assert factor < 1, "a step whose gradients are not clipped"
        for name, gradient in found.items():
            rule = workload.parameter_rule(name)
            weights[name], *state[name] = updated(
                settings, rule, workload.learning_rate(step), step + 1, factor * gradient,
                weights[name], *state[name],
            )  # fmt: skip
    return losses, weights


@functools.cache
def evaluation():
    """Return the mean loss of each evaluation sequence with the initial weights."""
    workload = synthetic.workload()
    weights = _wide(dict(workload.initial_weights(synthetic.SEED)))
    data = workload.open_data(synthetic_place(), synthetic.SEED)
    found = {}
    for (batch,) in data.evaluation():
        arrays = batch.arrays
        losses, _ = losses_and_gradients(weights, SIZES, arrays["token"], arrays["label"], 1.0)
        means = losses / arrays["token"].shape[1]
        found |= {n: m for n, m in zip(arrays["number"], means, strict=True) if n >= 0}
    data.close()
    return found


def synthetic_place():
    """Return the worker context of a single device."""
    from testing.synthetic import place

    return place(0, range(1), 1)


def _of_batch(weights, batch):
    arrays, scale = batch.arrays, 1 / batch.global_weight_sum
    losses, found = losses_and_gradients(weights, SIZES, arrays["token"], arrays["label"], scale)
    return losses.sum() * scale, found


def _wide(weights):
    return {name: np.float64(value) for name, value in weights.items()}
