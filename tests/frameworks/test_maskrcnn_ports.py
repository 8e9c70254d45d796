"""Mask R-CNN in TensorFlow and MXNet against PyTorch, and against torchvision's parts in float64."""

import numpy as np
import pytest

from tests.frameworks_probe import begin_chosen, below, probe, probe_together, relative
from tests.workloads.maskrcnn.test_maskrcnn_frameworks import CASES, reference
from tests.workloads.maskrcnn.test_maskrcnn_frameworks import trained as in_pytorch

FRAMEWORKS = ("tensorflow", "mxnet")


def trained(framework, case):
    return probe(framework, f"probes.maskrcnn_{framework}.computed", case)


@pytest.fixture(scope="module", autouse=True)
def all_at_once(request):
    """Every framework begins with what the chosen tests will ask of it, while another one is waited for."""
    begin_chosen(request, lambda framework, case: (framework, f"probes.maskrcnn_{framework}.computed", case))
    begin_chosen(request, lambda case: ("pytorch", "probes.maskrcnn_pytorch.computed", case))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_proposals_are_pytorchs(framework, case):
    found, wanted = trained(framework, case)["proposals"], in_pytorch(case)["proposals"]
    assert found.shape == wanted.shape
    assert len(found) > 50
    np.testing.assert_array_equal(found[:, :2], wanted[:, :2])
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert relative(found, wanted) <= 1e-5


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_losses_are_pytorchs_and_those_of_float64(framework, case):
    found = below(trained(framework, case), "loss/")
    for wanted in (in_pytorch(case), reference(case)):
        losses = below(wanted, "loss/")
        assert found.keys() == losses.keys()
        for name, loss in losses.items():
            assert found[name] == pytest.approx(loss, rel=1e-5), name


def gradients(framework, case):
    """Those found and those of float64: of every parameter that is trained, and of no other."""
    found, wanted = (below(one, "gradient/") for one in (trained(framework, case), reference(case)))
    assert found.keys() == wanted.keys()
    return [(name, found[name], gradient) for name, gradient in wanted.items()]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_are_those_of_float64(framework):
    for name, found, wanted in gradients(framework, "frozen"):
        assert relative(found, wanted) <= 1e-5, name


def test_gradients_of_tensorflows_demo_are_those_of_float64_but_for_single_relus():
    """In fp32 one of RPN's ReLUs falls on the other side of 0: one channel differs, and, by a little, all below it."""
    for name, found, wanted in gradients("tensorflow", "demo"):
        difference, size = found - wanted, np.linalg.norm(wanted)
        *others, most = np.sort(np.linalg.norm(difference.reshape(len(difference), -1), axis=1))
        if name.startswith(("rpn", "box", "mask")):
            assert np.linalg.norm(others) <= 1e-3 * size, name
            assert most <= (2e-2 if name.startswith("rpn.conv.") else 1e-3) * size, name
        else:
            assert np.linalg.norm(difference) <= 1e-2 * size, name


def test_gradients_of_mxnets_demo_are_those_of_float64_but_for_a_single_relu():
    """In fp32 one ReLU after the mask head's transposed convolution falls on the other side of 0: its channel differs, and
    by a little all below it."""
    for name, found, wanted in gradients("mxnet", "demo"):
        difference, size = found - wanted, np.linalg.norm(wanted)
        if name.startswith(("rpn", "box", "mask.mask_fcn")):
            assert relative(found, wanted) <= 1e-5, name
        elif name.startswith("mask.conv5"):
            outputs = difference if difference.ndim == 1 else difference.swapaxes(0, 1)
            *others, _ = np.sort(np.linalg.norm(outputs.reshape(len(outputs), -1), axis=1))
            assert np.linalg.norm(others) <= 1e-5 * size, name
        assert np.linalg.norm(difference) <= 1e-3 * size, name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_detections_and_masks_are_pytorchs(framework, case):
    found, wanted = trained(framework, case), in_pytorch(case)
    assert found["count"].tolist() == wanted["count"].tolist()
    assert found["count"].min() > 5
    assert found["label"].tolist() == wanted["label"].tolist()
    np.testing.assert_allclose(found["box"], wanted["box"], atol=1e-3)
    assert relative(found["box"], wanted["box"]) <= 1e-5
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)
    np.testing.assert_allclose(found["mask"], wanted["mask"], atol=1e-4)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ten_steps_are_pytorchs(framework, case):
    found, wanted = trained(framework, case), in_pytorch(case)
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-3)
    assert found["digests"][-2] == found["digests"][-1]
    assert set(found["moved"]) == set(wanted["moved"])


@pytest.mark.parametrize("case", CASES)
def test_every_padded_shape_is_traced_once(case):
    """Batches have other numbers of objects, polygons, positives, and regions of a level in every step."""
    assert trained("tensorflow", case)["traces"] == 2


@pytest.mark.parametrize("side", [7, 14])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_pooling_is_torchvisions_in_value_and_gradient(framework, side):
    """MXNet's in three ways: one sparse matrix, several, and as on a GPU by its operator."""
    arrays = probe(framework, f"probes.maskrcnn_{framework}.pooled", side)
    wanted = below(probe("pytorch", "probes.maskrcnn_pytorch.pooled", side), "torchvision/")
    ways = ("", "parts/", "operator/") if framework == "mxnet" else ("",)
    for way in ways:
        for kind in ("values", "gradients"):
            np.testing.assert_allclose(arrays[f"{way}{kind}"], wanted[kind], atol=5e-5)
    assert np.abs(arrays["values"]).max() > 1
    assert not arrays["values"][3].any()  # beyond the image: nothing
    if framework == "mxnet":
        assert [arrays[f"{way}matrices"] for way in ways] == [1, 4, 0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_suppression_of_2000_clustered_boxes_is_pytorchs(framework):
    found = probe(framework, f"probes.maskrcnn_{framework}.suppressed", 2000)["kept"]
    wanted = probe("pytorch", "probes.maskrcnn_pytorch.suppressed", 2000)["kept"]
    assert found.tolist() == wanted.tolist()
    assert 100 < len(wanted) < 1900


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_batch_without_objects_gives_gradients(framework, case):
    """Of every parameter; those of boxes and masks are 0, of class logits and objectness they are not."""
    found = probe(framework, f"probes.maskrcnn_{framework}.halves", case)
    gradients = below(found, "empty/")
    assert gradients.keys() == below(reference(case), "gradient/").keys()
    silent = ("rpn.bbox_pred", "box.bbox_pred", "mask.")
    for name, gradient in gradients.items():
        assert gradient.any() == (not name.startswith(silent)), name
    assert found["dummies"].shape == (2,)
    assert np.isfinite(found["dummies"]).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_devices_take_the_mean_of_their_losses(framework):
    """Also where one or both have no object: all gradients are there, and nobody waits for ever."""
    processes = 1 if framework == "mxnet" else 2
    one, *others = probe_together(framework, processes, f"probes.maskrcnn_{framework}.shared", "frozen")
    halves = probe(framework, f"probes.maskrcnn_{framework}.halves", "frozen")
    first, second = below(halves, "first/"), below(halves, "second/")
    for name, gradient in below(one, "full/").items():
        assert relative(gradient, (first[name] + second[name]) / 2) <= 1e-5, name
        for two in others:
            np.testing.assert_array_equal(gradient, two[f"full/{name}"])
    assert below(one, "empty/").keys() == first.keys()
    assert not any(value.any() for name, value in below(one, "empty/").items() if name.startswith("mask."))
    for two in others:
        assert one["digest"] == two["digest"]
        assert one["loss"] == two["loss"]
    assert one["loss"] > 0
    if framework == "mxnet":
        assert len(set(one["digests"])) == 1
        assert len(one["digests"]) == 2


@pytest.mark.parametrize("case", CASES)
def test_mxnet_computes_the_same_without_its_graphs(case):
    """`compile=off` calls the same operators one by one."""
    found, wanted = probe("mxnet", "probes.maskrcnn_mxnet.computed", case, "off"), trained("mxnet", case)
    np.testing.assert_allclose(found["mask"], wanted["mask"], atol=1e-4)
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    np.testing.assert_array_equal(found["digests"][0], found["digests"][1])


@pytest.mark.full
def test_xla_changes_nothing():
    """All slots are computed then; their number is part of what is compiled."""
    arrays = probe("tensorflow", "probes.maskrcnn_tensorflow.compiled")
    found, wanted = below(arrays, "on/"), below(arrays, "off/")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert relative(found[name], value) <= 1e-4, name
