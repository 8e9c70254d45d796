"""Run inside TensorFlow's environment: what a trainer holds after its constructor, and after setup; prints JSON.

    python tensorflow_setup.py WORKLOAD

`constructed`, `built`: numbers of variables and tensors. `started`: whether TensorFlow's runtime, and with it a device's
context, was there after the constructor.
"""

import dataclasses
import gc
import importlib
import json
import sys

import tensorflow as tf
from tensorflow.python.eager import context

from suite.common.registry import load_trainer
from tests.workloads.ncf import synthetic_ncf
from workloads.api import Facts, Place
from workloads.ncf.settings import DEMO_MODEL, SETS
from workloads.ncf.workload import NCF

IMAGES = {"resnet50": "resnet50.synthetic_resnet", "ssd": "ssd.synthetic_ssd"}


def workload_of(name):
    """A small case of the workload."""
    if name in IMAGES:
        return importlib.import_module(f"tests.workloads.{IMAGES[name]}").workload("uneven", "tensorflow")
    names = [field.name for field in dataclasses.fields(NCF.Hyperparameters)]
    values = {field: SETS["demo"][field].value for field in names}
    settings = dataclasses.replace(
        synthetic_ncf.settings(""), framework="tensorflow", devices=1, model=DEMO_MODEL, hyperparameters=values
    )
    return NCF(settings, Facts(5_000, 501, {"users": 501, "items": 333, "min_ratings": 2}, "synthetic"))


def held():
    """Variables and tensors that live."""
    gc.collect()
    return sum(isinstance(one, (tf.Variable, tf.Tensor)) for one in gc.get_objects())


def main():
    workload = workload_of(sys.argv[1])
    trainer = load_trainer(sys.argv[1], "tensorflow")(workload, Place(0, 1, range(1), 1, ("cpu",)))
    found = {"started": context.context()._context_handle is not None, "constructed": held()}
    trainer.setup(workload.initial_weights(1), warm_up=False)
    print(json.dumps({**found, "built": held(), "started_by_setup": context.context()._context_handle is not None}))


if __name__ == "__main__":
    main()
