"""What can be said of updates and constructors on a GPU without one: they wait for nothing, they allocate nothing."""

import pytest

from tests.frameworks_probe import probe


@pytest.mark.parametrize("optimizer", ["sgd", "lars", "adam", "rmsprop"])
def test_update_clipped_and_scaled_waits_for_nothing(optimizer):
    found = probe("pytorch", "probes.pytorch_device.update", optimizer)
    assert found["waits"].tolist() == found["copies"].tolist() == []


@pytest.mark.parametrize("what", ["regions", "transformer"])
def test_nothing_is_copied_and_waited_for(what):
    """What Mask R-CNN's regions learn, and the Transformer's loss with dropout."""
    assert probe("pytorch", "probes.pytorch_device.copied")[what].tolist() == []


def test_dropout_masks_are_drawn_where_their_keys_are():
    """The Transformer's batch goes up once, whatever the number of masks: words, labels, keys, and each side's rows."""
    assert probe("pytorch", "probes.pytorch_device.copied")["transformer/all"] <= 3 + 2 * 3


@pytest.mark.parametrize("workload", ["gnmt", "ncf", "resnet50", "ssd", "transformer"])
def test_constructor_makes_no_tensor_and_no_context(workload):
    on_cpu, on_cuda, in_setup = probe("pytorch", "probes.pytorch_device.constructors")[workload]
    assert on_cpu == on_cuda == 0
    assert in_setup > 1_000
