"""Clock v0.5 times setup: a trainer's constructor leaves parameters, tensors and the device's
context to it.
"""

import functools

import pytest

from suite.common import registry
from tests.frameworks_probe import probe, probe_alone

LEAST = {"pytorch": 1_000, "tensorflow": 20, "jax": 20, "mxnet": 100}
"""Made by setup, which shows that it is counted: values of a tensor; variables; arrays."""
WORKLOADS = ("gnmt", "maskrcnn", "ncf", "resnet50", "ssd", "transformer")


@functools.cache
def held(framework):
    """TensorFlow's and JAX's runtimes start once: in a process of its own."""
    asked = probe_alone if framework in ("tensorflow", "jax") else probe
    return asked(framework, "probes.constructors.held", framework, 2 if framework == "mxnet" else 1)


@pytest.mark.parametrize(
    ("framework", "workload"),
    [
        (framework, name)
        for framework in LEAST
        for name in WORKLOADS
        if framework in registry.frameworks_of(name)
    ],
)
def test_constructor_holds_nothing_on_the_device(framework, workload):
    *by_constructor, by_setup = held(framework)[workload]
    assert by_constructor == [0] * len(by_constructor)
    assert by_setup > LEAST[framework]
