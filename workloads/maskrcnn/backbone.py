"""Pretrained backbone of Mask R-CNN: Detectron's MSRA ResNet-50, `R-50.pkl`.

The file uses Caffe2's names, and its batch norms are already stored as scales and shifts.
torchvision's `resnet50` is also accepted, but a run with torchvision's weights is in the open
division. The running statistics and ε of torchvision's batch norms are merged into scales and
shifts. torchvision's first convolution expects RGB divided by the standard deviation, so its
weights are converted to BGR without the division. Two differences remain. torchvision trained the
network with strides on the 3×3 convolutions. The channel means of torchvision differ from the
channel means of this workload by up to 0.016 standard deviations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import Array
from workloads.common.networks import backbones, caffe2_files, residual, torch_files
from workloads.common.networks.backbones import Published, Shapes
from workloads.maskrcnn import network

PUBLISHED = Published(
    file="R-50.pkl",
    url="https://dl.fbaipublicfiles.com/detectron/ImageNetPretrained/MSRA/R-50.pkl",
    md5="b19105fdd7baafb40480251377de18f2",
    network="Detectron's ImageNet backbone",
)
"""The only backbone weights that the rules allow.

The digest is from the reference's download_dataset.sh. No other digest is published.
"""
TORCHVISION_EPSILON = 1e-5
TORCHVISION_DEVIATIONS = (0.225, 0.224, 0.229)
"""torchvision's standard deviations of blue, green, and red, for pixel values of 0 … 1."""
_BRANCHES = {
    "conv1": "branch2a",
    "conv2": "branch2b",
    "conv3": "branch2c",
    "downsample.0": "branch1",
}


def shapes(layers: network.Network) -> Shapes:
    """Return the shape of every weight, scale, and shift of the trunk by name."""
    return {
        **residual.parameter_shapes(layers.trunk_convolutions, frozen_norm=True),
        **residual.affine_shapes(layers.trunk_convolutions),
    }


def decode(data: bytes, layers: network.Network) -> dict[str, Array]:
    """Return the arrays of `shapes` from the content of a Detectron or torchvision file.

    Raises:
        ValueError: `data` has neither format. The error message is one line without the file name.
    """
    if caffe2_files.is_dictionary(data):
        return from_caffe2(caffe2_files.decode(data), layers)
    return from_torchvision(torch_files.decode(data), layers)


def from_caffe2(arrays: Mapping[str, Array], layers: network.Network) -> dict[str, Array]:
    """Return the arrays with Detectron's names converted to the names of the suite.

    Detectron's names are `res2_0_branch2a_w`, `…_bn_s`, `…_bn_b`. Arrays without an equivalent in
    the suite (`fc1000_w`) are dropped.
    """
    renamed: dict[str, Array] = {}
    for layer in layers.trunk_convolutions:
        theirs = _caffe2_name(layer.name)
        norm = "res_conv1_bn" if layer.name == "conv1" else f"{theirs}_bn"
        wanted = {
            f"{layer.name}.weight": f"{theirs}_w",
            f"{layer.norm}.weight": f"{norm}_s",
            f"{layer.norm}.bias": f"{norm}_b",
        }
        renamed |= {ours: arrays[name] for ours, name in wanted.items() if name in arrays}
    return renamed


def _caffe2_name(name: str) -> str:
    """Return Detectron's name of a layer: `res2_0_branch2b` for `layer1.0.conv2`."""
    if name == "conv1":
        return name
    stage, block, part = name.split(".", 2)
    return f"res{int(stage.removeprefix('layer')) + 1}_{block}_{_BRANCHES[part]}"


def from_torchvision(arrays: Mapping[str, Array], layers: network.Network) -> dict[str, Array]:
    """Return torchvision's parameters with running statistics merged into scale and shift.

    Raises:
        ValueError: An array is missing or damaged.
    """
    convolutions = list(layers.trunk_convolutions)
    wanted = {**residual.parameter_shapes(convolutions), **residual.statistic_shapes(convolutions)}
    checked = backbones.check(arrays, wanted)
    renamed: dict[str, Array] = {}
    for layer in convolutions:
        names = ("weight", "bias", "running_mean", "running_var")
        weight, bias, mean, variance = (
            np.float64(checked[f"{layer.norm}.{name}"]) for name in names
        )
        scale = weight / np.sqrt(variance + TORCHVISION_EPSILON)
        renamed[f"{layer.name}.weight"] = checked[f"{layer.name}.weight"]
        renamed[f"{layer.norm}.weight"] = scale.astype(np.float32)
        renamed[f"{layer.norm}.bias"] = (bias - mean * scale).astype(np.float32)
    stem, deviations = f"{layers.stem.name}.weight", 255 * np.array(TORCHVISION_DEVIATIONS)
    renamed[stem] = (checked[stem][:, ::-1] / deviations[:, None, None]).astype(np.float32)
    return renamed
