"""Mask R-CNN on a ResNet-50 trunk with a feature pyramid: layers, names, initial weights, without a framework.

Trunk: ResNet v1 (`workloads.common.networks.residual`, stride on a bottleneck's first 1×1) with torchvision's names. Its
norms are frozen in the benchmark: scale and shift of a channel, into which the statistics are folded without ε; they are
state, not parameters, and stem and first stage are frozen with them. The demo trains all of a small trunk with live batch
norm.

Levels of the pyramid: one for each stage of the trunk (`fpn.inner0` 1×1 on the finest map; the next coarser level, every cell
twice in each direction, is added; `fpn.layer0` 3×3 on the sum), and one more, every second cell of the last in each
direction.

RPN, shared by all levels: `rpn.conv` 3×3 and ReLU, `rpn.cls_logits` 1×1 with a logit for each anchor of a cell,
`rpn.bbox_pred` 1×1 with four deltas, the anchor outermost. Box head: `box.fc6`, `box.fc7` with ReLU on (channel, row, column)
of a region's pooled map, `box.cls_score`, `box.bbox_pred`, the class outermost, background first. Mask head: `mask.conv0`
… 3×3 with ReLU, `mask.conv5_mask` transposed 2×2 of stride 2 with ReLU, `mask.mask_fcn_logits` 1×1, a channel for each
class and background. Sources: the reference's modeling/ and its configs/e2e_mask_rcnn_R_50_FPN_1x.yaml.
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
"""Subtracted from pixels of 0 … 255 in the order blue, green, red; there is no deviation (reference defaults.py)."""
BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Of live batch norm (demo)."""
BIAS_RATE = 2.0
"""The rate of biases over that of weights; they do not decay (reference solver/build.py)."""
REFERENCE_PARAMETERS = 44_347_573
REFERENCE_TRAINED = 44_125_173
"""With 80 classes; without the stem's and the first stage's 222,400."""
RPN_BETA = 1 / 9
"""Where RPN's smooth L1 turns linear (reference modeling/rpn/loss.py)."""
RATIOS = 3
"""Anchors of a cell: heights over widths of 0.5, 1 and 2."""
_STEM_SCALE = 1 / 64
_SUM_SCALE = 0.2
"""Frozen scales after the stem and at the end of a block where no published weights replace them (synthetic profile,
benchmarks): pixels are not divided by a deviation and nothing is normalised, and maps should neither grow nor vanish."""


@dataclass(frozen=True)
class Dense:
    """A linear layer with bias; weight (outputs, inputs)."""

    name: str
    inputs: int
    outputs: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.outputs, self.inputs)


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution, 2×2 of stride 2, with bias; weight (inputs, outputs, 2, 2)."""

    name: str
    inputs: int
    outputs: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.inputs, self.outputs, 2, 2)


Layer = Convolution | Dense | Transposed


@dataclass(frozen=True)
class Network(Trunk):
    """The trunk, the pyramid on its stages, RPN, box head and mask head."""

    frozen: bool
    """Norms, stem and first stage are not trained."""
    inner: tuple[Convolution, ...]
    outer: tuple[Convolution, ...]
    """`fpn.inner…` and `fpn.layer…`, the finest level first."""
    rpn: tuple[Convolution, Convolution, Convolution]
    box: tuple[Dense, Dense, Dense, Dense]
    mask_convolutions: tuple[Convolution, ...]
    mask_up: Transposed
    mask_logits: Convolution
    classes: int
    """Without the background."""
    strides: tuple[int, ...]
    """Pixels to a cell of each level that regions are pooled from."""
    box_pool: int
    mask_pool: int
    """Sides of a region's pooled map in the two heads."""

    @property
    def layers(self) -> Iterator[Layer]:
        """Those beside the trunk, in the order of the parameters."""
        for part in (self.inner, self.outer, self.rpn, self.box, self.mask_convolutions):
            yield from part
        yield self.mask_up
        yield self.mask_logits

    @property
    def levels(self) -> int:
        """Levels that regions are pooled from; RPN has one more."""
        return len(self.inner)


def build(model: Mapping[str, Json]) -> Network:
    """The layers of a model.

    `model`: `trunk_blocks` (bottlenecks of each stage), `trunk_width` (of the first), `trunk_norm` (`frozen` or `batch`),
    `fpn_channels`, `box_features`, `mask_convolutions`, `mask_channels`, `classes`, `strides`, `box_pool`, `mask_pool`.
    """
    blocks, width = model["trunk_blocks"], int(model["trunk_width"])
    stages = range(len(blocks))
    trunk = residual.build_trunk(
        "bottleneck", blocks, [width << stage for stage in stages], residual.STRIDES[: len(blocks)], stride_on_1x1=True
    )
    channels, features, between = (int(model[name]) for name in ("fpn_channels", "box_features", "mask_channels"))
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
            Convolution(f"mask.conv{i}", before, between, 3, 1, 1) for i, before in enumerate(mask_inputs)
        ),
        mask_up=Transposed("mask.conv5_mask", between, between),
        mask_logits=Convolution("mask.mask_fcn_logits", between, classes + 1, 1, 1, 0),
        classes=classes,
        strides=tuple(int(stride) for stride in model["strides"][: len(blocks)]),
        box_pool=int(model["box_pool"]),
        mask_pool=int(model["mask_pool"]),
    )


def map_shapes(network: Network, height: int, width: int) -> list[tuple[int, int]]:
    """(rows, columns) of every level of RPN for padded images of these pixels, the finest first."""
    rows, columns = (dict(residual.map_sizes(network, side)) for side in (height, width))
    last = [layer for layer in rows if layer.name.endswith(".0.conv3")]
    trunk_shapes = [(rows[layer], columns[layer]) for layer in last]
    return [*trunk_shapes, ((trunk_shapes[-1][0] + 1) // 2, (trunk_shapes[-1][1] + 1) // 2)]


def activation_values(network: Network, model: Mapping[str, Json], height: int, width: int) -> int:
    """Numbers that one image of these pixels leaves for the backward pass: about 0.33 billion at 800×1,344.

    Every trained convolution's output once: ReLU writes into it. Of the pyramid and RPN too, and of the heads for `rois`
    regions and `roi_positive_fraction` of them.
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
    """Canonical name to shape of every parameter, frozen weights among them, in order."""
    shape_of = residual.parameter_shapes(network.trunk_convolutions, network.frozen)
    for layer in network.layers:
        shape_of[f"{layer.name}.weight"], shape_of[f"{layer.name}.bias"] = layer.shape, (layer.outputs,)
    return shape_of


def constants(network: Network) -> Shapes:
    """Canonical name to shape of every scale and shift of frozen norms; none with live ones."""
    return residual.affine_shapes(network.trunk_convolutions) if network.frozen else {}


def statistics(network: Network) -> Shapes:
    """Canonical name to shape of every running statistic of live norms; none with frozen ones."""
    return {} if network.frozen else residual.statistic_shapes(network.trunk_convolutions)


def parameter_counts(network: Network) -> dict[str, int]:
    """Values of `trunk`, `fpn`, `rpn`, `box`, `mask`, and how many of them are `frozen`."""
    counts = dict.fromkeys(("trunk", "fpn", "rpn", "box", "mask", "frozen"), 0)
    for name, shape in shapes(network).items():
        part = name.partition(".")[0]
        counts[part if part in counts else "trunk"] += math.prod(shape)
        counts["frozen"] += math.prod(shape) if network.frozen and _is_frozen(name) else 0
    return counts


def check_reference_counts(network: Network) -> None:
    """Of the model with 80 classes: what the reference has, as an assertion."""
    counts = parameter_counts(network)
    total = sum(counts.values()) - counts["frozen"]
    assert total == REFERENCE_PARAMETERS, f"{total} parameters, not the reference's {REFERENCE_PARAMETERS}"
    trained = total - counts["frozen"]
    assert trained == REFERENCE_TRAINED, f"{trained} trained parameters, not the reference's {REFERENCE_TRAINED}"


def parameter_rule(network: Network, name: str, decay: float) -> ParameterRule:
    """How a parameter is updated: biases at twice the rate without decay; with frozen norms, stem and first stage not at
    all."""
    if network.frozen and _is_frozen(name):
        return ParameterRule(frozen=True)
    return ParameterRule(lr_multiplier=BIAS_RATE) if name.endswith(".bias") else ParameterRule(decay)


def _is_frozen(name: str) -> bool:
    return name.startswith(("conv1", "bn1", "layer1."))


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter and of every frozen scale and shift.

    Trunk, where no published weights replace it: normal of variance 2 / (outputs · kernel²); live norms 1 and 0. The rest
    as in the reference: pyramid and box layers uniform in ±√(3 / fan-in) (Kaiming with a = 1), RPN normal of deviation
    0.01, class logits 0.01, box deltas 0.001, mask head normal of deviation √(2 / fan-out); biases 0.
    """
    for layer in network.trunk_convolutions:
        deviation = math.sqrt(2 / (layer.outputs * layer.kernel**2))
        for name, value in residual.normed_weights(layer, seed, "normal", deviation):
            is_scale = network.frozen and name == f"{layer.norm}.weight"
            yield name, value * np.float32(_random_scale(layer)) if is_scale else value
    for other in network.layers:
        weight = f"{other.name}.weight"
        yield weight, draw(seed, weight, other.shape, *_initial(other))
        yield f"{other.name}.bias", np.zeros(other.outputs, np.float32)


def _random_scale(layer: Convolution) -> float:
    if layer.name == "conv1":
        return _STEM_SCALE
    return _SUM_SCALE if layer.name.endswith("conv3") else 1.0


def _initial(layer: Layer) -> tuple[str, float]:
    """Kind and scale of a layer's initial weights beside the trunk."""
    part, _, name = layer.name.partition(".")
    if name == "bbox_pred" and part == "box":
        return "normal", 0.001
    if part == "rpn" or name == "cls_score":
        return "normal", 0.01
    if part == "mask":  # fan-out as PyTorch counts it: the second axis of a transposed convolution is its fan-in
        return "normal", math.sqrt(2 / (layer.shape[0] * layer.shape[2] * layer.shape[3]))  # type: ignore[misc]
    return "uniform", math.sqrt(3 / math.prod(layer.shape[1:]))
