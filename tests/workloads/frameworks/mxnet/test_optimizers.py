import pytest

from tests.frameworks_probe import probe

CASE = "probes.mxnet_optimizers.case"


@pytest.mark.parametrize("kind", ["sgd", "lars"])
def test_two_contexts_follow_numpy_through_changing_rates(kind):
    found = probe("mxnet", CASE, kind)
    assert found["weights"] < 1e-5
    assert found["velocities"] < 1e-5
    assert found["contexts_equal"]


@pytest.mark.parametrize("kind", ["sgd", "lars"])
def test_state_comes_back_and_reset_repeats_the_run(kind):
    assert probe("mxnet", CASE, kind)["state_comes_back"]
    assert probe("mxnet", CASE, kind)["repeats"]
