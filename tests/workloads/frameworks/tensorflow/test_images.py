"""Image models on TensorFlow's ModelTrainer: batch norm where gradients are accumulated."""

from tests.frameworks_probe import probe, relative


def test_pieces_move_running_statistics_one_after_the_other():
    """As passes over the pieces do; batch norm normalises each piece by its own statistics."""
    found = probe("tensorflow", "probes.tensorflow_images.in_pieces")
    for name, limit in (("statistics", 1e-5), ("gradient", 1e-3)):
        assert relative(found[f"{name}/pieces"], found[f"{name}/halves"]) < limit
