"""Mask R-CNN in every framework, compared with torchvision's modules in float64.

Plain NumPy connects the modules of this reference. Frameworks are also compared with PyTorch.
"""

import numpy as np
import pytest

from testing import synthetic_maskrcnn
from tests.frameworks_probe import begins, below, probe, probe_together, relative
from tests.helpers import full_but, full_of
from tests.workloads.maskrcnn import regions_plain as plain

CASES = ("frozen", "demo")
BOXES = 1000
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")

LONG = ("tensorflow", "demo")
"""Combination that takes half of the time of all combinations.

Tests of ResNet-50 and SSD also cover trained norms.
"""


def in_each(*frameworks):
    """Parametrize by each of the frameworks and every case."""
    pairs = [(framework, case) for framework in frameworks for case in CASES]
    return pytest.mark.parametrize(("framework", "case"), full_of(pairs, LONG))


of_every_case = pytest.mark.parametrize("case", CASES)
in_every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)
in_every = in_each(*FRAMEWORKS)


def asked(framework, case):
    return framework, "probes.maskrcnn_trainers.computed", framework, case


def trained(framework, case):
    return probe(*asked(framework, case))


def reference(case):
    return probe("pytorch", "probes.maskrcnn_torchvision.computed", case)


all_at_once = begins(asked)


@in_every
def test_proposals_are_those_of_float64(framework, case):
    found, wanted = trained(framework, case)["proposals"], reference(case)["proposals"]
    assert found.shape == wanted.shape
    assert len(found) > 50
    np.testing.assert_array_equal(found[:, :2], wanted[:, :2])
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert relative(found, wanted) <= 1e-5


@in_every
def test_losses_are_those_of_float64(framework, case):
    found, wanted = (
        below(results, "loss/") for results in (trained(framework, case), reference(case))
    )
    assert found.keys() == wanted.keys()
    assert all(loss > 0 for loss in wanted.values())
    for name, loss in wanted.items():
        assert found[name] == pytest.approx(loss, rel=1e-5), name


def gradients(framework, case):
    """Return the gradients found and those in float64 for every trained parameter.

    Frozen parameters may not have a gradient.
    """
    found, wanted = (
        below(results, "gradient/") for results in (trained(framework, case), reference(case))
    )
    assert found.keys() == wanted.keys()
    return [(name, found[name], gradient) for name, gradient in wanted.items()]


@pytest.mark.parametrize(
    ("framework", "case"),
    [*((framework, "frozen") for framework in FRAMEWORKS), ("pytorch", "demo")],
)
def test_gradients_are_those_of_float64(framework, case):
    for name, found, wanted in gradients(framework, case):
        assert relative(found, wanted) <= 1e-5, name


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS[1:], "jax", "mxnet"))
def test_gradients_of_the_demo_are_those_of_float64_except_for_single_relus(framework):
    """Allow differences by ReLUs whose input is near 0.

    In fp32, the input of a ReLU in the RPN or after the mask head's transposed convolution can have
    the wrong sign. Which ReLU depends on the processor. The gradients of its channel differ, and
    those of all layers below differ a little.
    """
    for name, found, wanted in gradients(framework, "demo"):
        difference, size = found - wanted, np.linalg.norm(wanted)
        *rest, most = np.sort(np.linalg.norm(difference.reshape(len(difference), -1), axis=1))
        if name.startswith(("rpn", "box", "mask")):
            assert np.linalg.norm(rest) <= 1e-3 * size, name
            assert most <= (2e-2 if name.startswith("rpn.conv.") else 1e-3) * size, name
        else:
            assert np.linalg.norm(difference) <= 1e-2 * size, name


@in_every
def test_detections_and_masks_are_those_of_float64(framework, case):
    found, wanted = trained(framework, case), reference(case)
    assert found["count"].tolist() == wanted["count"].tolist()
    assert found["count"].min() > 5
    assert found["label"].tolist() == wanted["label"].tolist()
    np.testing.assert_allclose(found["box"], wanted["box"], atol=1e-3)
    assert relative(found["box"], wanted["box"]) <= 1e-5
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)
    np.testing.assert_allclose(found["mask"], wanted["mask"], atol=1e-4)


@in_every
def test_training_changes_trained_parameters_and_state_is_restored(framework, case):
    found = trained(framework, case)
    warm, cold, after, again = found["digests"]
    assert warm == cold != after == again
    assert set(found["moved"]) == set(below(found, "gradient/"))


@in_every
def test_ten_steps_are_pytorchs(framework, case):
    found, wanted = trained(framework, case)["losses"], trained("pytorch", case)["losses"]
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found[:3], wanted[:3], rtol=1e-4)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


@in_each("tensorflow", "jax")
def test_every_padded_shape_is_traced_once(framework, case):
    """Check that different numbers of objects, polygons and regions need no new trace."""
    assert trained(framework, case)["traces"] == 2


WAYS = {
    "pytorch": ("products/", "levels/", "device/"),
    "tensorflow": ("",),
    "jax": ("",),
    "mxnet": ("", "parts/", "operator/"),
}
"""Prefixes of the ways to pool.

PyTorch: by products for small maps on a CPU, by level for large maps, and as on a GPU. MXNet: by a
single sparse matrix, by several matrices, and by its operator as on a GPU.
"""


@pytest.mark.parametrize("side", [7, 14])
@in_every_framework
def test_pooling_is_torchvisions_in_value_and_gradient(framework, side):
    of_torch = probe("pytorch", "probes.maskrcnn_pytorch.pooled", side)
    found, wanted = (
        probe(framework, f"probes.maskrcnn_{framework}.pooled", side),
        below(of_torch, "torchvision/"),
    )
    for way in WAYS[framework]:
        for kind in ("values", "gradients"):
            np.testing.assert_allclose(found[f"{way}{kind}"], wanted[kind], atol=5e-5)
    assert np.abs(wanted["values"]).max() > 1
    assert not wanted["values"][3].any()  # this box is outside the image
    if framework == "pytorch":
        # Otherwise gradients, including zeros, would be added sequentially.
        assert found["at_one_place"].tolist() == [1, 1, 1]
    if framework == "mxnet":
        assert [found[f"{way}matrices"] for way in WAYS[framework]] == [1, 4, 0]


@in_every_framework
def test_suppression_of_clustered_boxes_is_the_plain_one(framework):
    wanted = plain.suppress(*synthetic_maskrcnn.clustered(BOXES), 0.7).tolist()
    assert 100 < len(wanted) < BOXES - 100
    assert (
        probe(framework, "probes.maskrcnn_trainers.suppressed", framework, BOXES)["kept"].tolist()
        == wanted
    )
    if framework == "pytorch":
        assert (
            probe("pytorch", "probes.maskrcnn_pytorch.suppressed_on_device", BOXES)["kept"].tolist()
            == wanted
        )


@in_every
def test_a_batch_without_objects_gives_gradients(framework, case):
    """Check the gradients of every parameter.

    Those of boxes and masks are 0, those of class logits and objectness are not.
    """
    found = trained(framework, case)
    gradients = below(found, "empty/")
    assert gradients.keys() == below(reference(case), "gradient/").keys()
    silent = ("rpn.bbox_pred", "box.bbox_pred", "mask.")
    for name, gradient in gradients.items():
        assert gradient.any() == (not name.startswith(silent)), name
    assert found["dummies"].shape == (2,)
    assert np.isfinite(found["dummies"]).all()


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS, "pytorch", "jax", "mxnet"))
def test_two_devices_average_their_losses(framework):
    """Check gradients if a device or both devices have no objects.

    All gradients must exist, and no process may wait forever.
    """
    processes = 1 if framework == "mxnet" else 2
    main, *remaining = probe_together(
        framework, processes, "probes.maskrcnn_trainers.shared", framework, "frozen"
    )
    halves = probe(framework, "probes.maskrcnn_trainers.halves", framework, "frozen")
    first, second = below(halves, "first/"), below(halves, "second/")
    for name, gradient in below(main, "full/").items():
        assert relative(gradient, (first[name] + second[name]) / 2) <= 1e-5, name
        for two in remaining:
            np.testing.assert_array_equal(gradient, two[f"full/{name}"])
    assert below(main, "empty/").keys() == first.keys()
    assert not any(
        value.any() for name, value in below(main, "empty/").items() if name.startswith("mask.")
    )
    digests = [digest for process in (main, *remaining) for digest in process["digests"]]
    assert len(digests) == 2
    assert len(set(digests)) == 1
    assert {float(two["loss"]) for two in remaining} <= {float(main["loss"])}
    assert main["loss"] > 0


@of_every_case
def test_mxnet_computes_the_same_without_its_graphs(case):
    """Check `compile=off`, which calls the same operators individually."""
    found = probe("mxnet", "probes.maskrcnn_trainers.computed", "mxnet", case, "off", 3)
    wanted = trained("mxnet", case)
    np.testing.assert_allclose(found["mask"], wanted["mask"], atol=1e-4)
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)


@of_every_case
@pytest.mark.parametrize("empty", [False, True])
def test_gpu_targets_equal_the_hosts(case, empty):
    """Check that the same regions are in the same slots, with the same target masks."""
    arrays = probe("pytorch", "probes.maskrcnn_pytorch.on_device", case, empty)
    found, wanted = below(arrays, "device/"), below(arrays, "host/")
    for name in ("label", "weight", "level"):
        np.testing.assert_array_equal(found[name], wanted[name], name)
    for name in ("box", "delta"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-4)
    slots = wanted["mask"].shape[1]
    assert not found["mask"][:, slots:].any()
    assert (
        found["mask"][:, :slots] != wanted["mask"]
    ).mean() < 1e-4  # rounding of a box may move an outline
    assert wanted["mask"].any() != empty
    assert (wanted["label"] > 0).any() != empty
    losses = arrays["losses"]
    np.testing.assert_allclose(losses[1, :4], losses[0, :4], rtol=1e-5)
    np.testing.assert_allclose(losses[1, 4], losses[0, 4], rtol=1e-4)


@of_every_case
def test_gpu_detections_equal_the_hosts(case):
    arrays = probe("pytorch", "probes.maskrcnn_pytorch.detected", case)
    found, wanted = below(arrays, "device/"), below(arrays, "host/")
    np.testing.assert_array_equal(found["label"], wanted["label"])
    assert (wanted["label"] > 0).sum(1).min() > 5
    np.testing.assert_allclose(found["box"], wanted["box"], atol=1e-3)
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)
    used = wanted["label"] > 0
    np.testing.assert_allclose(found["mask"][used], wanted["mask"][used], atol=1e-4)


@in_each("jax")
def test_targets_and_detections_on_the_device_equal_the_hosts(framework, case):
    """Check that the same outputs of RPN lead to the same regions, slots and detections."""
    arrays = probe(framework, f"probes.maskrcnn_{framework}.decided", case)
    found, wanted = below(arrays, "device/"), below(arrays, "host/")
    assert found.keys() == wanted.keys()
    assert (wanted["learned/label"] > 0).sum() > 3
    assert (wanted["detected/label"] > 0).sum(1).min() > 5
    for name, value in wanted.items():
        np.testing.assert_allclose(
            found[name], value, atol=1e-3 if name.endswith(("box", "delta")) else 1e-6, err_msg=name
        )


@pytest.mark.full
def test_xla_changes_nothing():
    """Check that XLA, which computes all slots, has the same results."""
    arrays = probe("tensorflow", "probes.maskrcnn_tensorflow.compiled")
    found, wanted = below(arrays, "on/"), below(arrays, "off/")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert relative(found[name], value) <= 1e-4, name


def test_folding_norms_by_stage_equals_folding_by_layer():
    found = probe("pytorch", "probes.maskrcnn_pytorch.folded")
    stages, layers = below(found, "stages/"), below(found, "layers/")
    assert stages.keys() == layers.keys()
    assert len(stages) > 3 * 12
    for name, value in layers.items():
        assert value.any(), name
        np.testing.assert_array_equal(stages[name], value, err_msg=name)
    assert found["left"] == 0
