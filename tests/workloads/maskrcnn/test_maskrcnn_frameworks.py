"""Mask R-CNN in PyTorch against torchvision's parts in float64 with plain NumPy between them."""

import numpy as np
import pytest

from tests.frameworks_probe import begin_chosen, below, probe, relative

CASES = ("frozen", "demo")
TRAINED = "probes.maskrcnn_pytorch.computed"
REFERENCE = "probes.maskrcnn_torchvision.computed"


def trained(case):
    return probe("pytorch", TRAINED, case)


def reference(case):
    return probe("pytorch", REFERENCE, case)


@pytest.fixture(scope="module", autouse=True)
def all_at_once(request):
    begin_chosen(request, lambda case: ("pytorch", TRAINED, case))


@pytest.mark.parametrize("case", CASES)
def test_proposals_are_those_of_float64(case):
    found, wanted = trained(case)["proposals"], reference(case)["proposals"]
    assert found.shape == wanted.shape
    assert len(found) > 50
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert relative(found, wanted) <= 1e-5


@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_float64(case):
    found, wanted = (below(one, "loss/") for one in (trained(case), reference(case)))
    assert found.keys() == wanted.keys()
    assert all(loss > 0 for loss in wanted.values())
    for name, loss in wanted.items():
        assert found[name] == pytest.approx(loss, rel=1e-5), name


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_float64(case):
    """Of every parameter that is trained, and of no other."""
    found, wanted = (below(one, "gradient/") for one in (trained(case), reference(case)))
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert relative(found[name], gradient) <= 1e-5, name


@pytest.mark.parametrize("case", CASES)
def test_detections_and_masks_are_those_of_float64(case):
    found, wanted = trained(case), reference(case)
    assert found["count"].tolist() == wanted["count"].tolist()
    assert found["count"].min() > 5
    assert found["label"].tolist() == wanted["label"].tolist()
    np.testing.assert_allclose(found["box"], wanted["box"], atol=1e-3)
    assert relative(found["box"], wanted["box"]) <= 1e-5
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)
    np.testing.assert_allclose(found["mask"], wanted["mask"], atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_training_moves_what_is_trained(case):
    found = trained(case)
    assert np.isfinite(found["losses"]).all()
    assert found["digests"][0] == found["digests"][1]
    assert set(found["moved"]) == set(below(found, "gradient/"))
