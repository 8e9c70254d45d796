"""Mask R-CNN in PyTorch against torchvision's parts in float64 with plain NumPy between them."""

import numpy as np
import pytest

from tests.frameworks_probe import begin_chosen, below, probe, probe_together, relative
from tests.workloads.maskrcnn import regions_plain as plain

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


@pytest.mark.parametrize("side", [7, 14])
def test_pooling_is_torchvisions_in_value_and_gradient(side):
    """On a CPU by products for small maps and by levels for large ones; on a GPU every level pools all regions."""
    found = probe("pytorch", "probes.maskrcnn_pytorch.pooled", side)
    for way in ("products", "levels", "device"):
        for kind in ("values", "gradients"):
            np.testing.assert_allclose(found[f"{way}/{kind}"], found[f"torchvision/{kind}"], atol=5e-5)
    assert found["at_one_place"].tolist() == [1, 1, 1]  # where gradients, zeros too, would be added one after the other
    assert np.abs(found["torchvision/values"]).max() > 1
    assert not found["torchvision/values"][3].any()  # beyond the image: nothing


def test_suppression_of_2000_clustered_boxes_is_the_plain_one():
    found = probe("pytorch", "probes.maskrcnn_pytorch.suppressed", 2000)
    wanted = plain.suppress(found["box"], found["score"], 0.7)
    assert found["kept"].tolist() == found["on_device"].tolist() == wanted.tolist()
    assert 100 < len(wanted) < 1900


@pytest.mark.parametrize("case", CASES)
def test_a_batch_without_objects_gives_gradients(case):
    """Of every parameter; those of boxes and masks are 0, of class logits and objectness they are not."""
    found = probe("pytorch", "probes.maskrcnn_pytorch.halves", case)
    gradients = below(found, "empty/")
    assert gradients.keys() == below(trained(case), "gradient/").keys()
    silent = ("rpn.bbox_pred", "box.bbox_pred", "mask.")
    for name, gradient in gradients.items():
        assert gradient.any() == (not name.startswith(silent)), name
    assert np.isfinite(found["dummies"]).all()


def test_two_devices_take_the_mean_of_their_losses():
    """Also where one or both have no object: all gradients are there, and nobody waits for ever."""
    one, two = probe_together("pytorch", 2, "probes.maskrcnn_pytorch.shared", "frozen")
    halves = probe("pytorch", "probes.maskrcnn_pytorch.halves", "frozen")
    first, second = below(halves, "first/"), below(halves, "second/")
    for name, gradient in below(one, "full/").items():
        assert relative(gradient, (first[name] + second[name]) / 2) <= 1e-5, name
        np.testing.assert_array_equal(gradient, two[f"full/{name}"])
    assert below(one, "empty/").keys() == first.keys()
    assert not any(value.any() for name, value in below(one, "empty/").items() if name.startswith("mask."))
    assert one["digest"] == two["digest"]
    assert one["loss"] == two["loss"] > 0


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("empty", [False, True])
def test_a_gpu_decides_as_the_host_does(case, empty):
    """The same regions in the same slots, and the same masks to learn."""
    arrays = probe("pytorch", "probes.maskrcnn_pytorch.on_device", case, empty)
    found, wanted = below(arrays, "device/"), below(arrays, "host/")
    for name in ("label", "weight", "level"):
        np.testing.assert_array_equal(found[name], wanted[name], name)
    for name in ("box", "delta"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-4)
    slots = wanted["mask"].shape[1]
    assert not found["mask"][:, slots:].any()
    assert (found["mask"][:, :slots] != wanted["mask"]).mean() < 1e-4  # a box's last digit may move an outline
    assert wanted["mask"].any() != empty
    assert (wanted["label"] > 0).any() != empty
    losses = arrays["losses"]
    np.testing.assert_allclose(losses[1, :4], losses[0, :4], rtol=1e-5)
    np.testing.assert_allclose(losses[1, 4], losses[0, 4], rtol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_a_gpu_detects_what_the_host_does(case):
    arrays = probe("pytorch", "probes.maskrcnn_pytorch.detected", case)
    found, wanted = below(arrays, "device/"), below(arrays, "host/")
    np.testing.assert_array_equal(found["label"], wanted["label"])
    assert (wanted["label"] > 0).sum(1).min() > 5
    np.testing.assert_allclose(found["box"], wanted["box"], atol=1e-3)
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)
    there = wanted["label"] > 0
    np.testing.assert_allclose(found["mask"][there], wanted["mask"][there], atol=1e-4)


def test_nothing_of_a_gpus_step_but_suppression_and_masks_asks_for_values():
    found = probe("pytorch", "probes.maskrcnn_pytorch.waits", "frozen")
    assert found["noticed"]
    shapes = {name: tuple(shape) for name, shape in below(found, "shape/").items()}
    assert shapes["box"] == (2, 40, 4)
    assert shapes["object"] == (2, 10)
    assert shapes["pooled"] == (80, 24, 7, 7)
