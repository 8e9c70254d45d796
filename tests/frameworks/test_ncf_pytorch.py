"""NeuMF in PyTorch on several cores: pieces side by side, a thread each, and the same bits as on one core."""

import numpy as np

from tests.frameworks_probe import probe

FUNCTION = "probes.ncf_trainers.on_cores"


def test_pieces_are_computed_side_by_side_by_threads_of_one_core():
    alone, pair = probe("pytorch", FUNCTION, 1), probe("pytorch", FUNCTION, 2)
    assert (int(alone["threads"]), alone["inside"].tolist(), int(alone["outside"])) == (1, [1], 1)
    assert (int(pair["threads"]), pair["inside"].tolist(), int(pair["outside"])) == (2, [1], 2)


def test_cores_change_no_bit():
    alone, others = probe("pytorch", FUNCTION, 1), [probe("pytorch", FUNCTION, cores) for cores in (2, 4)]
    assert all(found["digest"] == alone["digest"] for found in others)
    assert all(np.array_equal(found["logits"], alone["logits"]) for found in others)
