"""Runs in a framework's environment: memory held by trainers after construction and setup."""

import dataclasses
import functools
import gc
import importlib

from suite.catalog.sets import named_sets
from suite.common.registry import frameworks_of, load_trainer, load_workload
from testing import synthetic
from tests.probes.image_trainers import place_here
from workloads.api import DatasetInfo

TEXT = {"vocabulary": 50, "dev": 9, "dev_longest": 20, "test_longest": 20, "pairs": 5_000}
SIZES = {
    "gnmt": TEXT,
    "maskrcnn": {"classes": 5, "objects_per_image_most": 3},
    "ncf": {"users": 50, "items": 40, "min_ratings": 2},
    "resnet50": {"classes": 10},
    "ssd": {"classes": 5},
    "transformer": TEXT,
}
"""Counts of a small data set for each workload."""


def constructor(name, framework, devices):
    """Return a function that constructs a demo's trainer, with changes of its worker context."""
    kind, module = load_workload(name), importlib.import_module(f"workloads.{name}.settings")
    settings = synthetic.settings(
        name,
        framework=framework,
        devices=devices,
        model=module.DEMO_MODEL,
        hyperparameters=named_sets(kind)["demo"].plain,
        global_batch_size=1_024 if name == "transformer" else 4,  # tokens or samples
    )
    workload, place = (
        kind(settings, DatasetInfo(64, 64, SIZES[name], "synthetic")),
        place_here(devices),
    )
    return lambda **changes: load_trainer(name, framework)(
        workload, dataclasses.replace(place, **changes)
    )


def held(framework, devices):
    """Map each workload to the counters of the framework's function below.

    The counters of the constructor should be 0. The last counter is for setup.
    """
    constructors = {
        name: constructor(name, framework, devices)
        for name in SIZES
        if framework in frameworks_of(name)
    }
    of = {"pytorch": of_pytorch, "tensorflow": of_tensorflow, "jax": of_jax, "mxnet": of_mxnet}
    return of[framework](constructors)


def set_up(trainer):
    """Set up the trainer without a warm-up."""
    trainer.setup(trainer.workload.initial_weights(1), warmup=False)


def of_pytorch(constructors):
    """Return the sizes of the largest tensors that construction and setup create.

    They are: in the constructor on the CPU and on CUDA, whether CUDA is initialized, and in setup.
    """
    import torch

    from tests.probes.pytorch_step import RunMonitor

    def largest(call):
        with RunMonitor() as watch:
            call()
        return max(
            (result.numel() for *_, result in watch.calls if isinstance(result, torch.Tensor)),
            default=0,
        )

    found = {}
    for name, construct in constructors.items():
        devices = [
            largest(functools.partial(construct, devices=(device,))) for device in ("cpu", "cuda:0")
        ]
        found[name] = [
            *devices,
            torch.cuda.is_initialized(),
            largest(functools.partial(set_up, construct())),
        ]
    return found


def of_tensorflow(constructors):
    """Return the number of live variables and tensors, and whether the runtime has started.

    The runtime creates the context of a device.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    def living():
        gc.collect()
        return sum(isinstance(value, (tf.Variable, tf.Tensor)) for value in gc.get_objects())

    def started():
        return context.context()._context_handle is not None

    found, trainers = {}, {}
    for name, construct in constructors.items():
        trainers[name] = construct()
        found[name] = [living(), started()]
    for name, trainer in trainers.items():
        before = living()
        set_up(trainer)
        found[name].append((living() - before) * started())
    return found


def of_jax(constructors):
    """Return whether JAX has opened a device, and the number of arrays after setup.

    Without a device, there are no arrays.
    """
    import jax
    from jax._src import xla_bridge

    trainers = {name: construct() for name, construct in constructors.items()}
    opened = xla_bridge.backends_are_initialized()
    found = {}
    for name, trainer in trainers.items():
        before = len(jax.live_arrays())
        set_up(trainer)
        found[name] = [opened, len(jax.live_arrays()) - before]
    return found


def of_mxnet(constructors):
    """Return the number of arrays and of key-value stores."""
    import mxnet as mx

    from tests.probes.small_mxnet import counted

    found = {}
    for name, construct in constructors.items():
        with counted(mx.nd.NDArray, "__init__") as arrays, counted(mx.kv, "create") as stores:
            trainer = construct()
            constructed = [len(arrays), len(stores)]
            set_up(trainer)
        found[name] = [*constructed, len(arrays)]
        trainer.close()
    return found
