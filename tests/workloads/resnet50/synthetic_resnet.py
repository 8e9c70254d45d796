"""Small made-up cases for ResNet's tests, the same in every framework's environment."""

from __future__ import annotations

import dataclasses

import numpy as np

from workloads.api import Batch, Facts, Settings
from workloads.common.randomness import bits, integers, normal, stream
from workloads.resnet50 import network
from workloads.resnet50.settings import DEMO_MODEL, REFERENCE_MODEL, SETS
from workloads.resnet50.workload import ResNet50

_WIDE = {**DEMO_MODEL, "widths": REFERENCE_MODEL["widths"]}
CASES = {
    "full": {"model": {**REFERENCE_MODEL, "image_size": 224}, "classes": 1000, "batch": 2, "set": "nvidia_v0.5_dgx1"},
    "sgd": {"model": _WIDE, "classes": 10, "batch": 12, "set": "nvidia_v0.5_dgx1"},
    "lars": {"model": _WIDE, "classes": 10, "batch": 12, "set": "nvidia_v0.7_dgx1"},
    "uneven": {"model": {**DEMO_MODEL, "image_size": 57}, "classes": 7, "batch": 6, "set": "demo"},
}
"""Name to model, classes, images per step, and the set that the optimizer's values come from. All but `uneven` have widths that
torchvision's ResNet can have."""
IMAGES = 96
STEPS = 10


def workload(case: str, framework: str, devices: int = 1, compile: str = "", **changes: object) -> ResNet50:
    """The workload of a case; the schedule is as short as its data set: warm-up and decay lie within ten steps.

    `compile` is off unless given, but for MXNet, where it is what users have.
    """
    chosen = CASES[case]
    values = {name: setting.value for name, setting in SETS[chosen["set"]].items() if name != "batch_size_global"}
    values |= {"learning_rate": 0.1 if case == "lars" else 0.002, "warmup_epochs": 0}
    settings = Settings(
        workload="resnet50", framework=framework, profile="demo", rules="v0.7", clock="v0.7", device="cpu",
        devices=devices, nodes=1, cores_per_device=1, oversubscribe=False, precision="fp32",
        batch_size_global=chosen["batch"], batch_rule="set", lr_scaling="none", seed=0, stop="target", mode="train",
        dataset="imagenet-demo", data_dir="", model=chosen["model"], targets={"top1": 0.8},
        hyperparameter_set=chosen["set"], hyperparameters=values, hyperparameter_sources={},
        options={"evaluation_batch_size": chosen["batch"], "compile": compile or ("auto" if framework == "mxnet" else "off")},
    )  # fmt: skip
    facts = Facts(IMAGES, IMAGES, {"classes": chosen["classes"]}, "made up")
    return ResNet50(dataclasses.replace(settings, **changes), facts)


def weights(made: ResNet50) -> dict[str, np.ndarray]:
    """Initial weights with shaken batch-norm scales and shifts, and biases that are not 0."""
    found = {}
    for name, value in made.initial_weights(7):
        noise = normal(bits(stream(7, f"shake/{name}"), np.arange(value.size))).reshape(value.shape)
        shaken = value if value.ndim > 1 else value + 0.2 * noise
        found[name] = shaken.astype(np.float32)
    return found


def statistics(made: ResNet50) -> dict[str, np.ndarray]:
    """Running statistics as after training: means around 0, variances around those that the layers have."""
    found = {}
    for name, shape in network.statistics(made.network).items():
        noise = normal(bits(stream(7, f"statistics/{name}"), np.arange(shape[0])))
        scale = 100.0 if name.startswith("bn1.") else 1.0
        found[name] = (0.1 * scale * noise if name.endswith("mean") else scale**2 * np.exp(0.3 * noise)).astype(
            np.float32
        )
    return found


def batch(made: ResNet50, step: int, replica: int = 0) -> Batch:
    """One replica's smooth random images (B, S, S, 3) of a step."""
    settings = made.settings
    size, count = int(settings.model["image_size"]), made.images_per_replica
    first = step * settings.batch_size_global + replica * count
    numbers = np.arange(first, first + count)
    coarse = integers(bits(stream(3, "images"), numbers[:, None], np.arange(8 * 8 * 3)), 256).reshape(count, 8, 8, 3)
    index = np.arange(size) * 8 // size
    fine = integers(bits(stream(4, "images"), numbers[:, None], np.arange(size * size * 3)), 40)
    image = np.clip(coarse[:, index][:, :, index] + fine.reshape(count, size, size, 3) - 20, 0, 255).astype(np.uint8)
    label = integers(bits(stream(5, "labels"), numbers), made.network.classes).astype(np.int32)
    arrays = {"image": image, "label": label, "valid": np.ones(count, bool)}
    return Batch(arrays, float(count), float(settings.batch_size_global), settings.batch_size_global)
