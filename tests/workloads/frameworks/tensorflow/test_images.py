"""Image models on TensorFlow's ModelTrainer: batch norm with accumulated gradients."""

from tests.frameworks_probe import probe, relative


def test_pieces_update_running_statistics_in_sequence():
    """Compare with separate passes over the pieces: batch norm normalizes each piece separately."""
    found = probe("tensorflow", "probes.tensorflow_images.in_pieces")
    for name, limit in (("statistics", 1e-5), ("gradient", 1e-3)):
        assert relative(found[f"{name}/pieces"], found[f"{name}/halves"]) < limit
