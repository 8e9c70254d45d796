"""`backbone.weights` of Mask R-CNN: the published R-50.pkl, and different files.

R-50.pkl is recognized by its MD5, and its names are translated. torchvision's resnet50 is folded
into it, which makes the run open.
"""

import dataclasses
import hashlib

import numpy as np
import pytest

from suite.common import registry
from suite.config.compose import compose
from suite.plan.settings import resolve_settings
from tests.workloads.common.networks import synthetic_caffe2_files as caffe2
from tests.workloads.common.networks import synthetic_torch_files as torch_files
from workloads.common.networks import backbones, residual
from workloads.maskrcnn import backbone, network
from workloads.maskrcnn.settings import REFERENCE_MODEL
from workloads.maskrcnn.workload import MaskRCNN

NARROW = {
    **REFERENCE_MODEL,
    "trunk_blocks": [2, 1, 1, 1],
    "trunk_width": 4,
    "fpn_channels": 8,
    "box_features": 8,
}
LAYERS = network.build(NARROW)
SHAPES = backbone.shapes(LAYERS)

THEIRS = {
    "conv1.weight": "conv1_w",
    "bn1.weight": "res_conv1_bn_s",
    "bn1.bias": "res_conv1_bn_b",
    "layer1.0.conv1.weight": "res2_0_branch2a_w",
    "layer1.0.bn1.weight": "res2_0_branch2a_bn_s",
    "layer1.0.downsample.0.weight": "res2_0_branch1_w",
    "layer1.0.downsample.1.bias": "res2_0_branch1_bn_b",
    "layer1.1.bn3.bias": "res2_1_branch2c_bn_b",
    "layer4.0.conv2.weight": "res5_0_branch2b_w",
}
"""Map some of the suite's names to Detectron's, written down independently."""


def caffe2_arrays():
    """Return weights with Detectron's names, and some entries that are dropped."""
    rng, found = np.random.default_rng(2), {}
    for name, shape in SHAPES.items():
        module, _, kind = name.rpartition(".")
        is_norm = len(shape) == 1
        of_layer = next(
            layer for layer in LAYERS.trunk_convolutions if module in (layer.name, layer.norm)
        )
        stem = "conv1" if of_layer.name == "conv1" else _name(of_layer.name)
        start = "res_conv1" if is_norm and of_layer.name == "conv1" else stem
        end = ("_bn_s" if kind == "weight" else "_bn_b") if is_norm else "_w"
        found[start + end] = rng.normal(size=shape).astype(np.float32)
    return {**found, "fc1000_w": np.ones((3, 2), np.float32), "conv1_b": np.zeros(4, np.float32)}


def _name(ours):
    stage, block, part = ours.split(".", 2)
    branch = {"conv1": "2a", "conv2": "2b", "conv3": "2c", "downsample.0": "1"}[part]
    return f"res{int(stage[-1]) + 1}_{block}_branch{branch}"


ARRAYS = caffe2_arrays()
FILE = caffe2.pickled(ARRAYS)


def torchvision_arrays():
    """Return weights with torchvision's names of a whole ResNet."""
    rng = np.random.default_rng(3)
    convolutions = list(LAYERS.trunk_convolutions)
    shapes = {**residual.parameter_shapes(convolutions), **residual.statistic_shapes(convolutions)}
    found = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return {
        name: np.abs(value) + 0.5 if name.endswith("var") else value
        for name, value in found.items()
    }


@pytest.fixture
def published(monkeypatch):
    """Treat the synthetic file as the published file."""
    chosen = dataclasses.replace(backbone.PUBLISHED, md5=hashlib.md5(FILE).hexdigest())
    monkeypatch.setattr(backbone, "PUBLISHED", chosen)


def resolved(folder, path, *overrides):
    """Return settings of a reference run with narrow layers after `resolve`."""
    config = (
        compose(("workload=maskrcnn", "device=cpu", f"backbone.weights={path}", *overrides))
        .jobs[0]
        .config
    )
    settings = resolve_settings(config, MaskRCNN, registry.load_framework("pytorch"))
    model = {**settings.model, **{name: NARROW[name] for name in NARROW}}
    settings = dataclasses.replace(settings, data_dir=str(folder / "coco2017"), model=model)
    return MaskRCNN.resolve(settings)


def test_decode_translates_detectrons_names():
    found = backbone.decode(FILE, LAYERS)
    assert set(found) == set(SHAPES)
    for ours, name in THEIRS.items():
        np.testing.assert_array_equal(found[ours], ARRAYS[name])


def test_the_published_file_is_recognized_by_its_md5(tmp_path, published):
    path = tmp_path / "any.name"
    path.write_bytes(FILE)
    settings = resolved(tmp_path, path)
    assert backbones.notes(settings, backbone.PUBLISHED) == ()
    loaded = backbones.load(settings, SHAPES)
    np.testing.assert_array_equal(loaded["layer4.0.conv2.weight"], ARRAYS["res5_0_branch2b_w"])
    assert settings.options["backbone"]["sha256"] == hashlib.sha256(FILE).hexdigest()
    drawn = dict(network.initial_weights(LAYERS, 1))
    assert set(loaded) < set(drawn)  # scales and shifts also have initial values
    assert set(drawn) - set(loaded) == {
        name for name in drawn if name.startswith(("fpn", "rpn", "box", "mask"))
    }


def test_a_different_file_is_rejected_or_open(tmp_path):
    path = tmp_path / "R-50.pkl"
    path.write_bytes(FILE)
    message = (
        r"expected the published R-50\.pkl \(MD5 b19105fd…\), got .*\. Download https://dl\.fb.*"
        r"allow_other"
    )
    with pytest.raises(ValueError, match=message):
        resolved(tmp_path, path)
    settings = resolved(tmp_path, path, "backbone.allow_other=true")
    (note,) = backbones.notes(settings, backbone.PUBLISHED)
    assert note == f"backbone {hashlib.sha256(FILE).hexdigest()[:8]} instead of R-50.pkl"


def test_torchvisions_weights_are_folded(tmp_path):
    """Check that stem and norm equal torchvision's for the same image, except for its means."""
    arrays = torchvision_arrays()
    path = tmp_path / "resnet50.pth"
    path.write_bytes(torch_files.tarred(arrays))
    settings = resolved(tmp_path, path, "backbone.allow_other=true")
    found = backbones.load(settings, SHAPES)
    rgb = np.random.default_rng(0).uniform(0, 255, (3, 7, 7))
    norm = {k: arrays[f"bn1.{k}"] for k in ("weight", "bias", "running_mean", "running_var")}
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])[:, :, None, None]
    means = np.array(network.BGR_MEANS)[:, None, None]
    same_means = means[::-1] / 255  # torchvision's means differ a little: see backbone.py
    assert np.abs((same_means - mean) / deviation).max() < 0.016
    summed = np.tensordot(arrays["conv1.weight"], (rgb / 255 - same_means) / deviation, 3)
    wanted = (summed - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-5) * norm[
        "weight"
    ] + norm["bias"]
    ours = (
        np.tensordot(found["conv1.weight"], rgb[::-1] - means, 3) * found["bn1.weight"]
        + found["bn1.bias"]
    )
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found["layer2.0.conv1.weight"], arrays["layer2.0.conv1.weight"])
    assert backbones.notes(settings, backbone.PUBLISHED)
