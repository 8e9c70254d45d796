"""Small synthetic cases of the zoo, the same in every framework's environment."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.workloads import synthetic
from workloads.api import Batch, Facts
from workloads.common import dropout
from workloads.common.networks import layer_lists
from workloads.common.randomness import bits, integers, stream
from workloads.zoo.networks import KINDS
from workloads.zoo.settings import SETS, profile_defaults
from workloads.zoo.workload import Zoo

CLASSES = 10
IMAGES = 4
"""Of a step."""
MORE_IMAGES = 12
"""Where batch norm would have too few values: the last maps are of 1 × 1 or 2 × 2 pixels."""
RATES = {"littlecnn": 1e-4, "googlenet": 1e-5, "inception": 1e-5, "resnet": 1e-5}
OTHER_RATE = 1e-6
"""Start of a network's name to its rate, so low that rounding in float32 does not grow within five steps; the losses of
five different batches."""


def images(model: str) -> int:
    """Of a step of small images."""
    return MORE_IMAGES if model.startswith(("inception", "resnet")) else IMAGES


def rate(model: str) -> float:
    """Of five steps."""
    return next((value for start, value in RATES.items() if model.startswith(start)), OTHER_RATE)


def workload(model: str, framework: str, image_size: int = 0, chosen: str = "sgd", **changes: object) -> Zoo:
    """A network at its own image size, or a small one; `changes`: of options."""
    options = {"model": model, **({"image_size": image_size} if image_size else {}), **changes}
    defaults = profile_defaults("synthetic", options)
    classes = CLASSES if image_size else KINDS[model].classes
    settings = synthetic.settings(
        "zoo", framework=framework, profile="synthetic", batch_size_global=images(model) if image_size else 1,
        dataset="imagenet", model=defaults.model, variant=defaults.variant, hyperparameter_set=chosen,
        hyperparameters=synthetic.hyperparameters(SETS[chosen], learning_rate=rate(model)),
        options={"evaluation_batch_size": 1, "compile": synthetic.compiled(framework, ""), **options},
    )  # fmt: skip
    return Zoo(dataclasses.replace(settings), Facts(64, 16, {"classes": classes}, "synthetic"))


def weights(made: Zoo) -> dict[str, np.ndarray]:
    """Initial weights with shaken biases and batch-norm scales and shifts."""
    return synthetic.shaken(made.initial_weights(7))


def statistics(made: Zoo) -> dict[str, np.ndarray]:
    """Running statistics that are not 0 and 1."""
    found = {}
    for name, shape in layer_lists.statistics(made.network).items():
        noise = synthetic.noise(f"statistics/{name}", shape)
        found[name] = (0.1 * noise if name.endswith("mean") else np.exp(0.3 * noise)).astype(np.float32)
    return found


def batch(made: Zoo, step: int) -> Batch:
    """Smooth random images of a step."""
    count = made.images_per_replica
    numbers = np.arange(step * count, (step + 1) * count)
    image = synthetic.pictures(numbers, int(made.settings.model["image_size"]))
    label = integers(bits(stream(5, "labels"), numbers), made.network.classes).astype(np.int32)
    arrays = {"image": image, "label": label, "dropout_key": dropout.keys(5, 0, numbers)}
    return Batch({**arrays, "valid": np.ones(count, bool)}, float(count), float(count), count)
