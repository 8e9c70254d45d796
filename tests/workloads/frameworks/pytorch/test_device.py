"""PyTorch's updates and losses for a GPU, checked without a GPU: they never wait for the device."""

import pytest

from tests.frameworks_probe import probe
from tests.workloads.frameworks.synthetic_updates import OPTIMIZERS


@pytest.mark.parametrize("case", [*OPTIMIZERS, "regions", "transformer"])
def test_no_copy_waits_for_the_device(case):
    """Check updates with clipping and loss scaling, losses of regions, and the Transformer."""
    assert probe("pytorch", "probes.pytorch_device.copied")[case].tolist() == []


def test_dropout_masks_are_drawn_on_the_device():
    """Check that the Transformer's batch is copied once, for any number of masks.

    The batch consists of words, labels, keys, and the rows of each side.
    """
    assert probe("pytorch", "probes.pytorch_device.copied")["transformer/all"] <= 3 + 2 * 3


def test_peak_memory_is_reset_for_each_measurement():
    assert probe("pytorch", "probes.pytorch_device.peaks")["gib"].tolist() == [3, 1]
