"""Small synthetic ResNet test cases, identical in every framework's environment."""

import dataclasses

import numpy as np

from suite.catalog.sets import named_sets
from testing import synthetic
from workloads.api import Batch, DatasetInfo
from workloads.common.randomness import bits, integers, stream
from workloads.resnet50 import network
from workloads.resnet50.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.resnet50.workload import ResNet50

_WIDE = {**DEMO_MODEL, "widths": REFERENCE_MODEL["widths"]}
CASES = {
    "full": {
        "model": {**REFERENCE_MODEL, "image_size": 224},
        "classes": 1000,
        "batch": 2,
        "set": "nvidia_v0.5_dgx1",
    },
    "sgd": {"model": _WIDE, "classes": 10, "batch": 12, "set": "nvidia_v0.5_dgx1"},
    "lars": {"model": _WIDE, "classes": 10, "batch": 12, "set": "nvidia_v0.7_dgx1"},
    "uneven": {"model": {**DEMO_MODEL, "image_size": 57}, "classes": 7, "batch": 6, "set": "demo"},
}
"""Model, classes, images per step, and hyperparameter set of each test case.

The hyperparameter set determines the hyperparameters of the optimizer. All cases except `uneven`
have layer widths that torchvision's ResNet supports.
"""
INITIALISATION = "truncated_normal_2"
"""Weight initialization of all test cases.

With larger initial weights, float32 rounding errors would grow ten times as fast over ten steps.
"""


def workload(
    case: str, framework: str, devices: int = 1, compile: str = "", **changes: object
) -> ResNet50:
    """Return the workload of a test case.

    The data set is so small that the warm-up and the decay of the learning rate end within ten
    steps.
    """
    chosen = CASES[case]
    rate = 0.1 if case == "lars" else 0.002
    changed = {"learning_rate": rate, "warmup_epochs": 0, "initialisation": INITIALISATION}
    changed |= {"label_smoothing": 0.1} if case in ("sgd", "lars") else {}
    values = synthetic.hyperparameters(named_sets(ResNet50)[chosen["set"]], **changed)
    settings = synthetic.settings(
        "resnet50", framework=framework, devices=devices, global_batch_size=chosen["batch"],
        dataset="imagenet-demo", model=chosen["model"], targets={"top1": 0.8},
        hyperparameter_set=chosen["set"], hyperparameters=values,
        options={
            "evaluation_batch_size": chosen["batch"],
            "compile": synthetic.compiled(framework, compile),
        },
    )  # fmt: skip
    dataset_info = DatasetInfo(
        synthetic.IMAGES, synthetic.IMAGES, {"classes": chosen["classes"]}, "synthetic"
    )
    return ResNet50(dataclasses.replace(settings, **changes), dataset_info)


def weights(workload: ResNet50) -> dict[str, np.ndarray]:
    """Return initial weights, with noise added to biases, batch-norm scales, and shifts."""
    return synthetic.shaken(workload.initial_weights(7))


def statistics(workload: ResNet50) -> dict[str, np.ndarray]:
    """Return running statistics that resemble those of a trained network.

    The means are around 0, and the variances are similar to the variances of the layers' outputs.
    """
    found = synthetic.statistics(network.statistics(workload.network))
    scales = {"bn1.running_mean": np.float32(100), "bn1.running_var": np.float32(10_000)}
    return {name: value * scales.get(name, np.float32(1)) for name, value in found.items()}


def batch(workload: ResNet50, step: int, replica: int = 0) -> Batch:
    """Return the smooth random images (B, S, S, 3) of a replica in a step."""
    settings, count = workload.settings, workload.images_per_replica
    numbers = synthetic.numbers_of(settings, step, replica, count)
    image = synthetic.pictures(numbers, int(settings.model["image_size"]))
    label = integers(bits(stream(5, "labels"), numbers), workload.network.classes).astype(np.int32)
    arrays = {"image": image, "label": label, "valid": np.ones(count, bool)}
    return Batch(
        arrays, float(count), float(settings.global_batch_size), settings.global_batch_size
    )
