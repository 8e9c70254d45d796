"""Image models on ModelTrainer: batch norm where gradients are accumulated, images of several sizes."""

import numpy as np
import pytest

from tests.frameworks_probe import probe, relative


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_pieces_move_running_statistics_one_after_the_other(kind):
    """As passes over the pieces do; batch norm normalises each piece by its own statistics."""
    found = probe("tensorflow", "probes.tensorflow_images.in_pieces")
    assert relative(found[f"pieces/{kind}"], found["halves"]) < 1e-5
    assert relative(found[f"gradient/pieces {kind}"], found["gradient/halves"]) < 1e-3


def test_images_of_two_sizes_train():
    found = probe("tensorflow", "probes.tensorflow_images.of_two_sizes")
    losses = found["losses"]
    assert np.isfinite(losses).all()
    assert found["traces"] == 2
    assert losses[2] < losses[0]
    assert losses[3] < losses[1]
