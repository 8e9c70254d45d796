"""Clock v0.5 times setup: a trainer's constructor leaves variables, tensors and the device's context to it."""

import pytest

from tests.frameworks_probe import below, probe_alone

WORKLOADS = ("ncf", "resnet50", "ssd")


@pytest.fixture(scope="module")
def holdings():
    return probe_alone("tensorflow", "probes.tensorflow_setup.holdings", *WORKLOADS)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_constructor_holds_nothing_on_the_device(holdings, workload):
    found = below(holdings, f"{workload}/")
    assert (found["constructed"], found["started"]) == (0, False)
    # Seen where they are: a parameter, two moments or a velocity, and the loss.
    assert found["built"] > 20
    assert found["started_by_setup"]
