"""Shared code of synthetic test cases: settings, worker contexts, weights, and images."""

from collections.abc import Iterable, Mapping

import numpy as np

from suite.catalog.rounds import find_round
from suite.catalog.sets import HyperparameterSet, named_sets
from suite.common import registry
from workloads.api import Settings, WorkerContext, Workload
from workloads.common.randomness import bits, integers, normal, stream

IMAGES = 96
"""Number of images in a synthetic data set. The number is small, so that every learning-rate
schedule ends within the steps of a test case.
"""


def settings(workload: str, **changes: object) -> Settings:
    """Return the settings of a workload's demo in fp32 on a single CPU core, without data."""
    values = {
        **{"framework": "pytorch", "profile": "demo", "rules": "v0.7", "device": "cpu"},
        **{"devices": 1, "nodes": 1, "cores_per_device": 1, "precision": "fp32"},
        **{"batch_rule": "set", "lr_scaling": "none", "hyperparameter_set": "demo"},
    }
    values |= changes
    # reading a round requires PyYAML, which the environments of workers do not contain
    if "round" not in values:
        values["round"] = round_figures(workload, str(values["rules"]))
    return Settings(workload=workload, **values)


def round_figures(workload: str, rules: str) -> dict[str, object]:
    """Return the settings that a round defines for a workload.

    If the workload is not installed, only the settings that all workloads share are returned.
    """
    kind = (
        registry.load_workload(workload) if workload in registry.names(registry.WORKLOADS) else None
    )
    found = find_round(rules, kind) or find_round(rules)
    assert found is not None, rules
    return found.figures


def of_set(kind: type[Workload], name: str, **changes: object) -> Settings:
    """Return the settings of a reference run in fp32 on GPUs with a hyperparameter set."""
    chosen = named_sets(kind)[name]
    values = {
        "profile": "reference",
        "device": "cuda",
        "global_batch_size": chosen["global_batch_size"].value,
    }
    values |= {"hyperparameter_set": name, "hyperparameters": chosen.plain}
    return settings(kind.name, **{**values, **changes})


def hyperparameters(chosen: HyperparameterSet, **changes: object) -> dict[str, object]:
    """Return the hyperparameters of a hyperparameter set, with changes.

    Values of the set that are not hyperparameters, such as the batch size, are omitted.
    """
    return {**chosen.plain, **changes}


def compiled(framework: str, compile: str) -> str:
    """Return the compilation mode for a test.

    If `compile` is given, it is returned. Otherwise the default of the framework for tests is
    returned: off, except for MXNet, whose users' default is auto, and for JAX, which always
    compiles.
    """
    return compile or ("auto" if framework in ("mxnet", "jax") else "off")


def place(process: int, replicas: range, total: int) -> WorkerContext:
    """Return a worker context with CPU devices."""
    return WorkerContext(
        process, -(-total // len(replicas)), replicas, total, ("cpu",) * len(replicas)
    )


def noise(label: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return normally distributed values of `shape` that depend only on `label`."""
    return normal(bits(stream(7, label), np.arange(int(np.prod(shape))))).reshape(shape)


def shaken(weights: Iterable[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the weights by name. Noise is added to one-dimensional weights.

    One-dimensional weights are biases, batch-norm scales, and batch-norm shifts.
    """
    found = {}
    for name, value in weights:
        moved = value if value.ndim > 1 else value + 0.2 * noise(f"shake/{name}", value.shape)
        found[name] = moved.astype(np.float32)
    return found


def statistics(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return running statistics that resemble those of a trained network.

    The means are around 0, and the variances are around 1.
    """
    found = {name: noise(f"statistics/{name}", shape) for name, shape in shapes.items()}
    every = {
        name: 0.1 * value if name.endswith("mean") else np.exp(0.3 * value)
        for name, value in found.items()
    }
    return {name: value.astype(np.float32) for name, value in every.items()}


def pictures(numbers: np.ndarray, size: int) -> np.ndarray:
    """Return smooth random images (B, S, S, 3) uint8.

    `numbers` (B,) contains the indices of the images in a data set, and `size` is the height and
    width S in pixels.
    """
    coarse = integers(bits(stream(3, "images"), numbers[:, None], np.arange(8 * 8 * 3)), 256)
    fine = integers(bits(stream(4, "images"), numbers[:, None], np.arange(size * size * 3)), 40)
    index = np.arange(size) * 8 // size
    large = coarse.reshape(-1, 8, 8, 3)[:, index][:, :, index]
    return np.clip(large + fine.reshape(-1, size, size, 3) - 20, 0, 255).astype(np.uint8)


def numbers_of(settings: Settings, step: int, replica: int, count: int) -> np.ndarray:
    """Return the indices of the `count` images that a replica uses in a step."""
    first = step * settings.global_batch_size + replica * count
    return np.arange(first, first + count)
