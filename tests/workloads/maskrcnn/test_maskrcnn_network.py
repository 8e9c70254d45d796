"""The layers of Mask R-CNN: counts, names and shapes, maps, parameter rules, initial values."""

import math

import numpy as np
import pytest

from tests.frameworks_probe import probe_json
from workloads.maskrcnn import anchors, network
from workloads.maskrcnn.settings import DEMO_MODEL, REFERENCE_MODEL

REFERENCE, DEMO = network.build(REFERENCE_MODEL), network.build(DEMO_MODEL)


def test_parameters_of_each_part():
    assert network.parameter_counts(REFERENCE) == {
        "trunk": 23_454_912, "fpn": 3_344_384, "rpn": 593_935,
        "box": 14_310_805, "mask": 2_643_537, "frozen": 222_400,
    }  # fmt: skip
    network.check_reference_counts(REFERENCE)
    parameters = sum(math.prod(shape) for shape in network.shapes(REFERENCE).values())
    assert parameters == network.REFERENCE_PARAMETERS == 44_347_573
    assert sum(network.parameter_counts(DEMO).values()) == 426_337
    with pytest.raises(AssertionError, match="426337 parameters"):
        network.check_reference_counts(DEMO)


@pytest.mark.framework
def test_names_and_shapes_are_those_of_torchvisions_model():
    """Compare with torchvision's MaskRCNN with 81 classes.

    The set of all parameters, frozen scales and frozen shifts must be equal.
    """
    (theirs,) = probe_json("pytorch", "probes.maskrcnn_torchvision.names", 81).values()
    renamed = theirs["renamed"]
    ours = {renamed[name]: list(shape) for name, shape in network.shapes(REFERENCE).items()}
    assert ours == theirs["parameters"]
    constants = {
        f"backbone.body.{name}": list(shape) for name, shape in network.constants(REFERENCE).items()
    }
    assert constants == {
        name: shape for name, shape in theirs["buffers"].items() if "running" not in name
    }
    assert theirs["trained"] == network.REFERENCE_TRAINED
    is_frozen = {
        renamed[name]: network.parameter_rule(REFERENCE, name, 0).frozen
        for name in network.shapes(REFERENCE)
    }
    assert sorted(name for name, frozen in is_frozen.items() if frozen) == sorted(theirs["frozen"])


@pytest.mark.parametrize(
    ("model", "height", "width"), [(REFERENCE_MODEL, 800, 1344), (DEMO_MODEL, 128, 96)]
)
def test_maps_are_those_of_the_anchors(model, height, width):
    shapes = network.map_shapes(network.build(model), height, width)
    assert shapes == [(level.height, level.width) for level in anchors.levels(model, height, width)]


def test_parameter_rules():
    rules = {
        name: network.parameter_rule(REFERENCE, name, 1e-4) for name in network.shapes(REFERENCE)
    }
    assert {name for name, rule in rules.items() if rule.frozen} == {
        "conv1.weight", "layer1.0.downsample.0.weight",
        *(f"layer1.{b}.conv{c}.weight" for b in range(3) for c in (1, 2, 3)),
    }  # fmt: skip
    for name, rule in rules.items():
        if not rule.frozen:
            wanted = (2.0, 0.0) if name.endswith("bias") else (1.0, 1e-4)
            assert (rule.lr_multiplier, rule.decay) == wanted
    assert not any(network.parameter_rule(DEMO, name, 1e-4).frozen for name in network.shapes(DEMO))
    assert network.constants(DEMO) == {} != network.statistics(DEMO)
    assert network.statistics(REFERENCE) == {}


def test_initial_weights():
    """Check the deviations of the fact sheet. A uniform distribution in ±b has b / √3."""
    found = dict(network.initial_weights(DEMO, 1))
    assert set(found) == set(network.shapes(DEMO))
    channels = 32
    wanted = {
        "conv1.weight": math.sqrt(2 / (16 * 49)),
        "fpn.inner2.weight": 1 / math.sqrt(256),
        "fpn.layer0.weight": 1 / math.sqrt(channels * 9),
        "rpn.conv.weight": 0.01,
        "box.fc6.weight": 1 / math.sqrt(channels * 49),
        "box.cls_score.weight": 0.01,
        "box.bbox_pred.weight": 0.001,
        "mask.conv1.weight": math.sqrt(2 / (channels * 9)),
        "mask.conv5_mask.weight": math.sqrt(2 / (channels * 4)),
        "mask.mask_fcn_logits.weight": math.sqrt(2 / 11),
    }
    for name, deviation in wanted.items():
        assert found[name].std() == pytest.approx(deviation, rel=0.12), name
    assert np.abs(found["fpn.layer0.weight"]).max() <= math.sqrt(3 / (channels * 9))
    assert not any(value.any() for name, value in found.items() if name.endswith("bias"))
    assert all(value.dtype == np.float32 for value in found.values())


def test_random_maps_of_a_frozen_trunk_stay_of_order_one():
    """Check that pixels of 100 do not end as millions.

    Frozen norms do not normalize, so the scales must be smaller.
    """
    model = {
        **REFERENCE_MODEL,
        "trunk_width": 8,
        "fpn_channels": 8,
        "box_features": 8,
        "mask_channels": 8,
    }
    scales = {
        name: v
        for name, v in network.initial_weights(network.build(model), 1)
        if name.endswith("bn3.weight")
    }
    assert len(scales) == 16
    assert {float(value[0]) for value in scales.values()} == {np.float32(0.2)}


def test_activation_values():
    """Check the count at full size, about a quarter of a billion values.

    It includes the trunk's trained stages, the pyramid, RPN, and the heads.
    """
    values = network.activation_values(REFERENCE, REFERENCE_MODEL, 800, 1344)
    heads = 512 * (256 * 49 + 1024 * 2) + 128 * 14**2 * (256 + 4 * 256 + 4 * 256)
    cells = sum(height * width for height, width in network.map_shapes(REFERENCE, 800, 1344))
    trunk = values - heads - 3 * 256 * cells
    frozen = (800 // 2) * (1344 // 2) * 64 + 200 * 336 * (3 * (64 + 64 + 256) + 256)
    # The stride on the first 1×1 makes its output a quarter of v1.5's.
    moved = sum(3 * 32 * scale * (800 // scale) * (1344 // scale) // 4 for scale in (4, 8, 16))
    assert trunk == 11_113_984 * 800 * 1344 // 224**2 - frozen - moved
    assert 0.2e9 < values < 0.3e9
