"""Run inside a framework's environment: what every workload's trainer holds after its constructor,
and after setup.
"""

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
"""Of a small data set of each workload."""


def constructor(name, framework, devices):
    """A function that constructs the trainer of a demo, here or with changes of its place."""
    kind, module = load_workload(name), importlib.import_module(f"workloads.{name}.settings")
    settings = synthetic.settings(
        name, framework=framework, devices=devices, model=module.DEMO_MODEL, hyperparameters=named_sets(kind)["demo"].plain,
        global_batch_size=1_024 if name == "transformer" else 4,  # tokens; or samples
    )  # fmt: skip
    workload, place = (
        kind(settings, DatasetInfo(64, 64, SIZES[name], "synthetic")),
        place_here(devices),
    )
    return lambda **changes: load_trainer(name, framework)(
        workload, dataclasses.replace(place, **changes)
    )


def held(framework, devices):
    """By workload: what the trainer's constructor made in the ways that count, which should be 0,
    and last what setup makes.
    """
    constructors = {
        name: constructor(name, framework, devices)
        for name in SIZES
        if framework in frameworks_of(name)
    }
    of = {"pytorch": of_pytorch, "tensorflow": of_tensorflow, "jax": of_jax, "mxnet": of_mxnet}
    return of[framework](constructors)


def set_up(trainer):
    """Without a warm-up."""
    trainer.setup(trainer.workload.initial_weights(1), warmup=False)


def of_pytorch(constructors):
    """Values of the largest tensor, on the CPU and on CUDA."""
    import torch

    from tests.probes.pytorch_step import RunMonitor

    def largest(call):
        with RunMonitor() as watch:
            call()
        return max(
            (made.numel() for *_, made in watch.calls if isinstance(made, torch.Tensor)), default=0
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
    """Variables and tensors that live, and whether TensorFlow's runtime, and with it a device's
    context, is there.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    def living():
        gc.collect()
        return sum(isinstance(one, (tf.Variable, tf.Tensor)) for one in gc.get_objects())

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
    """Whether JAX has opened a device, without which there are no arrays; after setup, arrays."""
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
    """Arrays and key-value stores."""
    import mxnet as mx

    from tests.probes.small_mxnet import counted

    found = {}
    for name, construct in constructors.items():
        with counted(mx.nd.NDArray, "__init__") as arrays, counted(mx.kv, "create") as stores:
            trainer = construct()
            made = [len(arrays), len(stores)]
            set_up(trainer)
        found[name] = [*made, len(arrays)]
        trainer.close()
    return found
