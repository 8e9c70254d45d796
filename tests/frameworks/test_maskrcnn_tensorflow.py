"""Mask R-CNN in TensorFlow against PyTorch, and against torchvision's parts in float64."""

import numpy as np
import pytest

from tests.frameworks_probe import begin, below, probe, probe_together, relative
from tests.workloads.maskrcnn.test_maskrcnn_frameworks import CASES, reference
from tests.workloads.maskrcnn.test_maskrcnn_frameworks import trained as in_pytorch

TRAINED = "probes.maskrcnn_tensorflow.computed"


def trained(case):
    return probe("tensorflow", TRAINED, case)


@pytest.fixture(scope="module", autouse=True)
def all_at_once():
    for case in CASES:
        begin("tensorflow", TRAINED, case)
        begin("pytorch", "probes.maskrcnn_pytorch.computed", case)


@pytest.mark.parametrize("case", CASES)
def test_proposals_are_pytorchs(case):
    found, wanted = trained(case)["proposals"], in_pytorch(case)["proposals"]
    assert found.shape == wanted.shape
    assert len(found) > 50
    np.testing.assert_array_equal(found[:, :2], wanted[:, :2])
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert relative(found, wanted) <= 1e-5


@pytest.mark.parametrize("case", CASES)
def test_losses_are_pytorchs_and_those_of_float64(case):
    found = below(trained(case), "loss/")
    for wanted in (in_pytorch(case), reference(case)):
        losses = below(wanted, "loss/")
        assert found.keys() == losses.keys()
        for name, loss in losses.items():
            assert found[name] == pytest.approx(loss, rel=1e-5), name


def test_gradients_are_those_of_float64():
    """Of every parameter that is trained, and of no other."""
    found, wanted = (below(one, "gradient/") for one in (trained("frozen"), reference("frozen")))
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert relative(found[name], gradient) <= 1e-5, name


def test_gradients_of_the_demo_are_those_of_float64_but_for_single_relus():
    """In fp32 one of RPN's ReLUs falls on the other side of 0: one channel differs, and, by a little, all below it."""
    found, wanted = (below(one, "gradient/") for one in (trained("demo"), reference("demo")))
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        difference, size = found[name] - gradient, np.linalg.norm(gradient)
        *others, most = np.sort(np.linalg.norm(difference.reshape(len(difference), -1), axis=1))
        if name.startswith(("rpn", "box", "mask")):
            assert np.linalg.norm(others) <= 1e-3 * size, name
            assert most <= (2e-2 if name.startswith("rpn.conv.") else 1e-3) * size, name
        else:
            assert np.linalg.norm(difference) <= 1e-2 * size, name


@pytest.mark.parametrize("case", CASES)
def test_detections_and_masks_are_pytorchs(case):
    found, wanted = trained(case), in_pytorch(case)
    assert found["count"].tolist() == wanted["count"].tolist()
    assert found["count"].min() > 5
    assert found["label"].tolist() == wanted["label"].tolist()
    np.testing.assert_allclose(found["box"], wanted["box"], atol=1e-3)
    assert relative(found["box"], wanted["box"]) <= 1e-5
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)
    np.testing.assert_allclose(found["mask"], wanted["mask"], atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_ten_steps_are_pytorchs(case):
    found, wanted = trained(case), in_pytorch(case)
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-3)
    assert found["digests"][0] == found["digests"][1]
    assert set(found["moved"]) == set(wanted["moved"])


@pytest.mark.parametrize("case", CASES)
def test_every_padded_shape_is_traced_once(case):
    """Batches have other numbers of objects, polygons, positives, and regions of a level in every step."""
    assert trained(case)["traces"] == 2


@pytest.mark.parametrize("side", [7, 14])
def test_pooling_is_torchvisions_in_value_and_gradient(side):
    found = probe("tensorflow", "probes.maskrcnn_tensorflow.pooled", side)
    wanted = below(probe("pytorch", "probes.maskrcnn_pytorch.pooled", side), "torchvision/")
    for kind in ("values", "gradients"):
        np.testing.assert_allclose(found[kind], wanted[kind], atol=5e-5)
    assert np.abs(found["values"]).max() > 1
    assert not found["values"][3].any()  # beyond the image: nothing


def test_suppression_of_2000_clustered_boxes_is_pytorchs():
    found = probe("tensorflow", "probes.maskrcnn_tensorflow.suppressed", 2000)["kept"]
    wanted = probe("pytorch", "probes.maskrcnn_pytorch.suppressed", 2000)["kept"]
    assert found.tolist() == wanted.tolist()
    assert 100 < len(wanted) < 1900


@pytest.mark.parametrize("case", CASES)
def test_a_batch_without_objects_gives_gradients(case):
    """Of every parameter; those of boxes and masks are 0, of class logits and objectness they are not."""
    found = probe("tensorflow", "probes.maskrcnn_tensorflow.halves", case)
    gradients = below(found, "empty/")
    assert gradients.keys() == below(reference(case), "gradient/").keys()
    silent = ("rpn.bbox_pred", "box.bbox_pred", "mask.")
    for name, gradient in gradients.items():
        assert gradient.any() == (not name.startswith(silent)), name
    assert found["dummies"].shape == (2,)
    assert np.isfinite(found["dummies"]).all()


def test_two_devices_take_the_mean_of_their_losses():
    """Also where one or both have no object: all gradients are there, and nobody waits for ever."""
    one, two = probe_together("tensorflow", 2, "probes.maskrcnn_tensorflow.shared", "frozen")
    halves = probe("tensorflow", "probes.maskrcnn_tensorflow.halves", "frozen")
    first, second = below(halves, "first/"), below(halves, "second/")
    for name, gradient in below(one, "full/").items():
        assert relative(gradient, (first[name] + second[name]) / 2) <= 1e-5, name
        np.testing.assert_array_equal(gradient, two[f"full/{name}"])
    assert below(one, "empty/").keys() == first.keys()
    assert not any(value.any() for name, value in below(one, "empty/").items() if name.startswith("mask."))
    assert one["digest"] == two["digest"]
    assert one["loss"] == two["loss"] > 0


@pytest.mark.full
def test_xla_changes_nothing():
    """All slots are computed then; their number is part of what is compiled."""
    arrays = probe("tensorflow", "probes.maskrcnn_tensorflow.compiled")
    found, wanted = below(arrays, "on/"), below(arrays, "off/")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert relative(found[name], value) <= 1e-4, name
