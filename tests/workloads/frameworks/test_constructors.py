"""A trainer's constructor creates no parameters, tensors, or device context.

Clock v0.5 includes setup, which therefore must create them.
"""

import functools

import pytest

from suite.common import registry
from tests.frameworks_probe import probe, probe_alone

MINIMUM = {"pytorch": 1_000, "tensorflow": 20, "jax": 20, "mxnet": 100}
"""Least number of values, variables, or arrays after setup, which shows that they are counted."""
WORKLOADS = ("gnmt", "maskrcnn", "ncf", "resnet50", "ssd", "transformer")


@functools.cache
def held(framework):
    """Return the counts after constructor and setup of each workload.

    TensorFlow and JAX need a separate process, because their runtimes start only once.
    """
    run_probe = probe_alone if framework in ("tensorflow", "jax") else probe
    return run_probe(
        framework, "probes.constructors.held", framework, 2 if framework == "mxnet" else 1
    )


@pytest.mark.parametrize(
    ("framework", "workload"),
    [
        (framework, name)
        for framework in MINIMUM
        for name in WORKLOADS
        if framework in registry.frameworks_of(name)
    ],
)
def test_constructor_allocates_no_memory_of_the_device(framework, workload):
    *by_constructor, by_setup = held(framework)[workload]
    assert by_constructor == [0] * len(by_constructor)
    assert by_setup > MINIMUM[framework]
