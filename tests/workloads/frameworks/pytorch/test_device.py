"""What can be said of updates and losses on a GPU without one: they wait for nothing."""

import pytest

from tests.frameworks_probe import probe
from tests.workloads.frameworks.synthetic_updates import OPTIMIZERS


@pytest.mark.parametrize("what", [*OPTIMIZERS, "regions", "transformer"])
def test_nothing_is_copied_and_waited_for(what):
    """By an update clipped and scaled dynamically, by what Mask R-CNN's regions learn, by the
    Transformer's dropout.
    """
    assert probe("pytorch", "probes.pytorch_device.copied")[what].tolist() == []


def test_dropout_masks_are_drawn_where_their_keys_are():
    """The Transformer's batch goes up once, whatever the number of masks: words, labels, keys, and
    each side's rows.
    """
    assert probe("pytorch", "probes.pytorch_device.copied")["transformer/all"] <= 3 + 2 * 3


def test_peak_memory_of_a_measurement_is_its_own():
    assert probe("pytorch", "probes.pytorch_device.peaks")["gib"].tolist() == [3, 1]
