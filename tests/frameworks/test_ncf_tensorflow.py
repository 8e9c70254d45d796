"""NeuMF in TensorFlow: compiled in pieces as plain, two processes as one, also where one has nothing but padding."""

import numpy as np
import pytest

from tests.frameworks_probe import probe, probe_together

FUNCTION = "probes.ncf_trainers.in_tensorflow"


@pytest.fixture(scope="module")
def single():
    return probe("tensorflow", FUNCTION, "fp32")


@pytest.fixture(scope="module")
def pair():
    return probe_together("tensorflow", 2, FUNCTION, "fp32")


def test_compiled_in_pieces_it_computes_the_same(single):
    np.testing.assert_allclose(single["compiled/losses"], single["graph/losses"], rtol=1e-6)
    np.testing.assert_allclose(single["compiled/logits"], single["graph/logits"], atol=1e-6, rtol=0)
    for kind in ("graph", "compiled"):
        assert single[f"{kind}/traces"] == 2
        assert single[f"{kind}/forward"] == pytest.approx(single[f"{kind}/losses"][0], rel=1e-6)


def test_two_processes_compute_what_one_computes(single, pair):
    assert len(single["graph/losses"]) >= 10
    for found in pair:
        np.testing.assert_allclose(found["graph/losses"], single["graph/losses"], rtol=1e-6)
        assert found["graph/traces"] == 2


def gathered(found):
    """What a process has of every process's arrays."""
    return {name.removeprefix("gathered/"): value.tolist() for name, value in found.items() if "gathered" in name}


def test_process_0_gathers_whatever_arrays_the_others_have(single, pair):
    first = {"0/hit": [True, False, True], "0/number": [0.0, 1.0]}
    assert gathered(pair[0]) == {**first, "1/hit": [True] * 7}
    assert gathered(pair[1]) == {}
    assert gathered(single) == first
    assert [float(found["broadcast"]) for found in pair] == [2.5, 2.5]


def test_every_process_notices_a_loss_that_is_no_number(single, pair):
    assert single["diverges"]
    assert all(found["diverges"] for found in pair)


def test_bf16_multiplies_in_bf16_and_keeps_weights_in_fp32(single):
    low = probe("tensorflow", FUNCTION, "bf16")
    difference = np.abs(low["graph/losses"] / single["graph/losses"] - 1).max()
    assert 1e-7 < difference < 5e-3
