"""Run inside TensorFlow's environment: what trainers hold after their constructors, and after setup."""

import dataclasses
import gc
import importlib

import tensorflow as tf
from tensorflow.python.eager import context

from suite.common.registry import load_trainer
from tests.probes.image_trainers import SYNTHETIC, place_here
from tests.workloads.ncf import synthetic_ncf
from workloads.api import Facts
from workloads.ncf.settings import DEMO_MODEL
from workloads.ncf.workload import NCF


def workload_of(name):
    """A small case of the workload."""
    if name in SYNTHETIC:
        return importlib.import_module(SYNTHETIC[name]).workload("uneven", "tensorflow")
    values = NCF.named_sets()["demo"].plain
    settings = dataclasses.replace(
        synthetic_ncf.settings(""), framework="tensorflow", devices=1, model=DEMO_MODEL, hyperparameters=values
    )
    return NCF(settings, Facts(5_000, 501, {"users": 501, "items": 333, "min_ratings": 2}, "synthetic"))


def held():
    """Variables and tensors that live."""
    gc.collect()
    return sum(isinstance(one, (tf.Variable, tf.Tensor)) for one in gc.get_objects())


def started():
    """Whether TensorFlow's runtime, and with it a device's context, is there."""
    return context.context()._context_handle is not None


def holdings(*names):
    """By workload, in a new process: `NAME/constructed`, `NAME/built`, variables and tensors after the constructor and
    after setup; `NAME/started` and `NAME/started_by_setup`, whether the runtime was there then.
    """
    found, trainers = {}, {}
    for name in names:
        workload = workload_of(name)
        trainers[name] = load_trainer(name, "tensorflow")(workload, place_here())
        found |= {f"{name}/constructed": held(), f"{name}/started": started()}
    for name, trainer in trainers.items():
        before = held()
        trainer.setup(trainer.workload.initial_weights(1), warm_up=False)
        found |= {f"{name}/built": held() - before, f"{name}/started_by_setup": started()}
    return found
