"""Training steps for a GPU, checked without a GPU: no waits, and channels-last convolutions.

The tests check neither the speed nor the values of a GPU.
"""

import pytest

from tests.frameworks_probe import probe

CASES = [("resnet50", "fp32"), ("resnet50", "bf16"), ("ssd", "fp32"), ("ssd", "bf16")]
TYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16"}


def step(workload, precision):
    return probe("pytorch", "probes.pytorch_step.step", workload, precision)


@pytest.mark.parametrize(("workload", "precision"), CASES)
def test_host_reads_no_value_during_a_step(workload, precision):
    assert step(workload, precision)["waits"].tolist() == []


@pytest.mark.parametrize(("workload", "precision"), CASES)
def test_convolutions_are_channels_last_and_narrow(workload, precision):
    found = step(workload, precision)
    assert found["channels_last"].shape[0] > 10
    assert found["channels_last"].all()
    assert set(found["types"]) == {TYPES[precision]}
