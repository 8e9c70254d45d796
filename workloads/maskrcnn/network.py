"""Mask R-CNN on a ResNet-50 trunk with a feature pyramid: layers and initial weights.

This module does not depend on a framework.

Trunk: The trunk is ResNet v1 (`workloads.common.networks.residual`) with torchvision's names. The
bottleneck blocks of the trunk have the stride on the first 1×1 convolution. In the benchmark, the
batch norms of the trunk are frozen: each batch norm consists of a scale and a shift per channel.
The running statistics are merged into scale and shift without ε. The scales and shifts are buffers,
not parameters. The stem and the first stage are also frozen. The demo trains all layers of a small
trunk with trained batch norms.

Pyramid: Each stage of the trunk gives one level. `fpn.inner0` is a 1×1 convolution on the finest
feature map. The next coarser level is upsampled by repeating every cell twice in each direction,
and is added to the output of the 1×1 convolution. `fpn.layer0` is a 3×3 convolution on this sum. An
additional coarsest level consists of every second cell of the last level in each direction.

RPN: All levels share the layers of the RPN. `rpn.conv` is a 3×3 convolution with ReLU.
`rpn.cls_logits` is a 1×1 convolution that gives a logit for each anchor of a cell. `rpn.bbox_pred`
is a 1×1 convolution that gives four deltas for each anchor, with the anchor as the outermost index
of the channels.

Box head: `box.fc6` and `box.fc7` with ReLU read the pooled map of a region, flattened in the order
(channel, row, column). The layers `box.cls_score` and `box.bbox_pred` follow. Their outputs have
the class as the outermost index and the background as the first class.

Mask head: `mask.conv0` … are 3×3 convolutions with ReLU. `mask.conv5_mask` is a transposed 2×2
convolution with stride 2 and ReLU. `mask.mask_fcn_logits` is a 1×1 convolution with a channel for
each class and for the background.

The sources are the reference's modeling/ and its configs/e2e_mask_rcnn_R_50_FPN_1x.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, Json, ParameterRule
from workloads.common.networks import residual
from workloads.common.networks.initial import draw
from workloads.common.networks.residual import Convolution as Convolution
from workloads.common.networks.residual import Shapes, Trunk

BGR_MEANS = (102.9801, 115.9465, 122.7717)
"""Means of blue, green, and red, which are subtracted from pixel values of 0 … 255.

The pixel values are not divided by a standard deviation (reference defaults.py).
"""
BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Momentum of the trained batch norms in the demo."""
BIAS_RATE = 2.0
"""Ratio of the learning rate of biases to the learning rate of weights.

Biases have no weight decay (reference solver/build.py).
"""
REFERENCE_PARAMETERS = 44_347_573
REFERENCE_TRAINED = 44_125_173
"""Number of trained parameters with 80 classes, without the 222,400 parameters of the stem and the
first stage.
"""
RPN_BETA = 1 / 9
"""Absolute error at which RPN's smooth L1 becomes linear (reference modeling/rpn/loss.py)."""
RATIOS = 3
"""Number of anchors per cell, with height / width of 0.5, 1, and 2."""
_STEM_SCALE = 1 / 64
_SUM_SCALE = 0.2
"""Initial value of the frozen scale at the end of a residual block. Published weights replace this
value.

The initial value is used with synthetic data and in benchmarks. In Mask R-CNN, pixel values are not
divided by a standard deviation, and feature maps are not normalized. `_SUM_SCALE` and `_STEM_SCALE`
prevent the activations from growing or vanishing.
"""


@dataclass(frozen=True)
class Dense:
    """Linear layer with bias and a weight (outputs, inputs)."""

    name: str
    inputs: int
    outputs: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.outputs, self.inputs)


@dataclass(frozen=True)
class Transposed:
    """Transposed 2×2 convolution with stride 2 and bias.

    The weight is (inputs, outputs, 2, 2).
    """

    name: str
    inputs: int
    outputs: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.inputs, self.outputs, 2, 2)


Layer = Convolution | Dense | Transposed


@dataclass(frozen=True)
class Network(Trunk):
    """Layers of the trunk, the feature pyramid, the RPN, the box head, and the mask head."""

    frozen: bool
    """Whether batch norms, the stem, and the first stage of the trunk are frozen."""
    inner: tuple[Convolution, ...]
    """1×1 convolutions `fpn.inner…`, from fine to coarse."""
    outer: tuple[Convolution, ...]
    """3×3 convolutions `fpn.layer…`, from fine to coarse."""
    rpn: tuple[Convolution, Convolution, Convolution]
    box: tuple[Dense, Dense, Dense, Dense]
    mask_convolutions: tuple[Convolution, ...]
    mask_up: Transposed
    mask_logits: Convolution
    classes: int
    """Number of classes without the background."""
    strides: tuple[int, ...]
    """Number of pixels per cell, for each pyramid level from which regions are pooled."""
    box_pool: int
    """Width and height of a region's pooled map in the box head."""
    mask_pool: int
    """Width and height of a region's pooled map in the mask head."""

    @property
    def layers(self) -> Iterator[Layer]:
        """Return the layers that are not part of the trunk, in parameter order."""
        for part in (self.inner, self.outer, self.rpn, self.box, self.mask_convolutions):
            yield from part
        yield self.mask_up
        yield self.mask_logits

    @property
    def levels(self) -> int:
        """Return the number of pyramid levels from which regions are pooled.

        The RPN has one more level.
        """
        return len(self.inner)


def build(model: Mapping[str, Json]) -> Network:
    """Return the layers of a model.

    Args:
        model: Settings of the model: `trunk_blocks` (bottlenecks per stage), `trunk_width` (of the
            first stage), `trunk_norm` (`frozen` or `batch`), `fpn_channels`, `box_features`,
            `mask_convolutions`, `mask_channels`, `classes`, `strides`, `box_pool`, `mask_pool`.
    """
    blocks, width = model["trunk_blocks"], int(model["trunk_width"])
    stages = range(len(blocks))
    trunk = residual.build_trunk(
        "bottleneck",
        blocks,
        [width << stage for stage in stages],
        residual.STRIDES[: len(blocks)],
        stride_on_1x1=True,
    )
    channels, features, between = (
        int(model[name]) for name in ("fpn_channels", "box_features", "mask_channels")
    )
    classes = int(model["classes"])
    inputs = [4 * width << stage for stage in stages]
    mask_inputs = [channels] + [between] * (int(model["mask_convolutions"]) - 1)
    return Network(
        trunk.stem,
        trunk.blocks,
        frozen=model["trunk_norm"] == "frozen",
        inner=tuple(Convolution(f"fpn.inner{i}", inputs[i], channels, 1, 1, 0) for i in stages),
        outer=tuple(Convolution(f"fpn.layer{i}", channels, channels, 3, 1, 1) for i in stages),
        rpn=(
            Convolution("rpn.conv", channels, channels, 3, 1, 1),
            Convolution("rpn.cls_logits", channels, RATIOS, 1, 1, 0),
            Convolution("rpn.bbox_pred", channels, 4 * RATIOS, 1, 1, 0),
        ),
        box=(
            Dense("box.fc6", channels * int(model["box_pool"]) ** 2, features),
            Dense("box.fc7", features, features),
            Dense("box.cls_score", features, classes + 1),
            Dense("box.bbox_pred", features, 4 * (classes + 1)),
        ),
        mask_convolutions=tuple(
            Convolution(f"mask.conv{i}", before, between, 3, 1, 1)
            for i, before in enumerate(mask_inputs)
        ),
        mask_up=Transposed("mask.conv5_mask", between, between),
        mask_logits=Convolution("mask.mask_fcn_logits", between, classes + 1, 1, 1, 0),
        classes=classes,
        strides=tuple(int(stride) for stride in model["strides"][: len(blocks)]),
        box_pool=int(model["box_pool"]),
        mask_pool=int(model["mask_pool"]),
    )


def map_shapes(network: Network, height: int, width: int) -> list[tuple[int, int]]:
    """Return (rows, columns) of every RPN level for a padded image size.

    The levels are ordered from fine to coarse.
    """
    rows, columns = (dict(residual.map_sizes(network, side)) for side in (height, width))
    last = [layer for layer in rows if layer.name.endswith(".0.conv3")]
    trunk_shapes = [(rows[layer], columns[layer]) for layer in last]
    return [*trunk_shapes, ((trunk_shapes[-1][0] + 1) // 2, (trunk_shapes[-1][1] + 1) // 2)]


def activation_values(network: Network, model: Mapping[str, Json], height: int, width: int) -> int:
    """Return the number of activations stored per image for the backward pass.

    The number is about 0.33 billion at 800×1,344 pixels. The output of every trained convolution is
    counted once, because ReLU works in place. The pyramid and the RPN are counted. The box head is
    counted for `rois` regions, and the mask head for the fraction `roi_positive_fraction` of these
    regions.
    """
    rows, columns = (dict(residual.map_sizes(network, side)) for side in (height, width))
    kept = [layer for layer in rows if not (network.frozen and _is_frozen(layer.name))]
    of_trunk = sum(layer.outputs * rows[layer] * columns[layer] for layer in kept)
    cells = sum(y * x for y, x in map_shapes(network, height, width))
    channels = network.outer[0].outputs
    regions, pooled = int(model["rois"]), network.mask_pool**2
    positives = int(regions * float(model["roi_positive_fraction"]))
    of_boxes = sum(layer.inputs for layer in network.box[:3])
    between = network.mask_up.inputs
    of_masks = pooled * (channels + between * len(network.mask_convolutions) + 4 * between)
    return of_trunk + 3 * channels * cells + regions * of_boxes + positives * of_masks


def shapes(network: Network) -> Shapes:
    """Return the shape of every parameter by name, in parameter order.

    The mapping includes frozen weights.
    """
    shape_of = residual.parameter_shapes(network.trunk_convolutions, network.frozen)
    for layer in network.layers:
        shape_of[f"{layer.name}.weight"], shape_of[f"{layer.name}.bias"] = (
            layer.shape,
            (layer.outputs,),
        )
    return shape_of


def constants(network: Network) -> Shapes:
    """Return the shape of every scale and shift of frozen batch norms by name.

    The mapping is empty if batch norms are trained.
    """
    return residual.affine_shapes(network.trunk_convolutions) if network.frozen else {}


def statistics(network: Network) -> Shapes:
    """Return the shape of every running statistic of trained batch norms by name.

    The mapping is empty if batch norms are frozen.
    """
    return {} if network.frozen else residual.statistic_shapes(network.trunk_convolutions)


def parameter_counts(network: Network) -> dict[str, int]:
    """Return the number of parameters in `trunk`, `fpn`, `rpn`, `box`, and `mask`.

    The key `frozen` has the number of frozen parameters in all components.
    """
    counts = dict.fromkeys(("trunk", "fpn", "rpn", "box", "mask", "frozen"), 0)
    for name, shape in shapes(network).items():
        part = name.partition(".")[0]
        counts[part if part in counts else "trunk"] += math.prod(shape)
        counts["frozen"] += math.prod(shape) if network.frozen and _is_frozen(name) else 0
    return counts


def check_reference_counts(network: Network) -> None:
    """Assert that a model with 80 classes has as many parameters as the reference."""
    counts = parameter_counts(network)
    total = sum(counts.values()) - counts["frozen"]
    assert total == REFERENCE_PARAMETERS, (
        f"{total} parameters, not the reference's {REFERENCE_PARAMETERS}"
    )
    trained = total - counts["frozen"]
    assert trained == REFERENCE_TRAINED, (
        f"{trained} trained parameters, not the reference's {REFERENCE_TRAINED}"
    )


def parameter_rule(network: Network, name: str, decay: float) -> ParameterRule:
    """Return the update rule of a parameter.

    Biases have twice the learning rate of weights and no weight decay. If the batch norms are
    frozen, the stem and the first stage are not updated.
    """
    if network.frozen and _is_frozen(name):
        return ParameterRule(frozen=True)
    return (
        ParameterRule(lr_multiplier=BIAS_RATE) if name.endswith(".bias") else ParameterRule(decay)
    )


def _is_frozen(name: str) -> bool:
    return name.startswith(("conv1", "bn1", "layer1."))


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) for every parameter and every frozen scale and shift.

    The initial weights of the trunk are used only if no published weights replace them. The trunk's
    convolutions are normal with variance 2 / (outputs · kernel²), and trained batch norms have
    scale 1 and shift 0. All other layers follow the reference. Pyramid and box layers are uniform
    in ±√(3 / fan-in) (Kaiming with a = 1). RPN layers, class logits, and box deltas are normal with
    standard deviations of 0.01, 0.01, and 0.001. The mask head is normal with standard deviation
    √(2 / fan-out). Biases are 0.
    """
    for layer in network.trunk_convolutions:
        deviation = math.sqrt(2 / (layer.outputs * layer.kernel**2))
        for name, value in residual.normed_weights(layer, seed, "normal", deviation):
            is_scale = network.frozen and name == f"{layer.norm}.weight"
            yield name, value * np.float32(_random_scale(layer)) if is_scale else value
    for head_layer in network.layers:
        weight = f"{head_layer.name}.weight"
        yield weight, draw(seed, weight, head_layer.shape, *_initial(head_layer))
        yield f"{head_layer.name}.bias", np.zeros(head_layer.outputs, np.float32)


def _random_scale(layer: Convolution) -> float:
    if layer.name == "conv1":
        return _STEM_SCALE
    return _SUM_SCALE if layer.name.endswith("conv3") else 1.0


def _initial(layer: Layer) -> tuple[str, float]:
    """Return the distribution and scale of the initial weights of a layer.

    The layer must not belong to the trunk.
    """
    part, _, name = layer.name.partition(".")
    if name == "bbox_pred" and part == "box":
        return "normal", 0.001
    if part == "rpn" or name == "cls_score":
        return "normal", 0.01
    # The mask head uses PyTorch's fan-out, which is computed from the first axis of the weight. For
    # a transposed convolution, the first axis is the input axis.
    if part == "mask":
        return "normal", math.sqrt(2 / (layer.shape[0] * layer.shape[2] * layer.shape[3]))  # type: ignore[misc]
    return "uniform", math.sqrt(3 / math.prod(layer.shape[1:]))
