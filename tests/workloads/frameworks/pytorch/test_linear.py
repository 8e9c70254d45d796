"""Linear layers with MKL and with oneDNN."""

import numpy as np

from tests.frameworks_probe import below, probe


def test_mkl_equals_plain_pytorch_and_onednn_agrees():
    found = probe("pytorch", "probes.pytorch_linear.both")
    plain = below(found, "plain/")
    assert len(plain) == 4
    for name, value in plain.items():
        np.testing.assert_array_equal(found[f"mkl/{name}"], value)
        np.testing.assert_allclose(found[f"onednn/{name}"], value, rtol=1e-5, atol=1e-5)
    assert found["calls"].tolist() == [0, 3]


def test_trainers_use_the_library_of_the_settings():
    none, mkl, onednn = probe("pytorch", "probes.pytorch_linear.of_trainers")["calls"].tolist()
    assert (mkl, none) == (0, onednn)
    assert onednn == 2 * 4 + 2 * 7 + 1
