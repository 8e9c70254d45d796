"""Mask R-CNN in MXNet. pytorch.py describes the order of computations.

The shapes use these symbols: B images of a replica, C classes without background, A anchors, S
sampled anchors, K cells of the pooled levels, R regions of an image, N = B·R regions of a batch, M
regions of an image that may be positive, D detections. Masks are computed only for the n regions of
a batch that need a mask.

The network has two halves, and each half is an MXNet graph. Between the halves, the host waits for
RPN's outputs, selects regions, and pools them. Autograd records only the halves, so the code
computes the gradient of the pooling explicitly. The first halves on all contexts are enqueued
before the host waits for the first context. The order of regions does not affect the losses, so the
regions of a batch are stored without an image axis.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import mxnet as mx
import numpy as np

from workloads.api import Array, Batch, ParameterRule, WorkerContext
from workloads.common.arrays import Float32s, Int32s
from workloads.frameworks.mxnet.graphs import Graphs, Inputs, Tensor
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import BLOCK, ImageModel, rectified
from workloads.frameworks.mxnet.model import Replica
from workloads.frameworks.mxnet.regions import Pool, pool, suppress
from workloads.frameworks.mxnet.trainer import in_turn
from workloads.maskrcnn import network
from workloads.maskrcnn.regions import host
from workloads.maskrcnn.regions.detections import detect
from workloads.maskrcnn.regions.proposals import Proposals
from workloads.maskrcnn.regions.rules import stacked
from workloads.maskrcnn.workload import MaskRCNN

RPN_BETA_ROOT = 3
"""Parameter 1 / √β of MXNet's smooth L1 operator for RPN, with β = 1/9 (reference
modeling/rpn/loss.py).
"""
MAX_FIXED_SHAPES = 2
"""Maximum number of shape sets for which MXNet plans the memory of each network half only once per
set.

Planning once per set makes the half 10 % faster. With more shape sets, MXNet plans the memory again
whenever the shapes change.
"""
Outputs = dict[str, list[mx.nd.NDArray]]


class Detector(ImageModel):
    """Network in two halves. Between the halves, the host selects regions."""

    scale, shift = (1.0,) * 3, tuple(-mean for mean in network.BGR_MEANS)
    epsilon, momentum = network.BATCH_NORM_EPSILON, 1 - network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, half: bool, on_cpu: bool) -> None:
        shapes = {**network.shapes(layers), **network.constants(layers)}
        super().__init__(shapes, network.statistics(layers), half, on_cpu)
        self.layers, self.frozen_norms = layers, layers.frozen

    def constants(self) -> dict[str, Array]:
        """Return the constants that normalize images.

        `scale` also reverses the channel order from RGB to BGR.
        """
        return {
            **super().constants(),
            "scale": np.eye(3, dtype=np.float32)[::-1].reshape(3, 3, 1, 1).copy(),
        }

    def padded(self, images: Tensor, sizes: Tensor) -> Tensor:
        """Return blue, green, and red minus their means, (B, 3, H, W).

        Pixels beyond the image sizes `sizes` (B, 2) are padding and become 0.
        """
        F, x = self.F, self.normalised(images)
        limits = F.cast(sizes, "float32")
        inside = []
        for axis in (0, 1):
            places = F.reshape(F.contrib.arange_like(x, axis=axis + 2), (1, -1))
            inside.append(
                F.broadcast_lesser(places, F.slice_axis(limits, axis=1, begin=axis, end=axis + 1))
            )
        rows, columns = inside
        mask = F.batch_dot(F.expand_dims(rows, 2), F.expand_dims(columns, 1))
        return F.broadcast_mul(x, F.cast(F.expand_dims(mask, 1), self.dtype))

    def first_half(self, batch: Inputs) -> dict[str, Tensor]:
        """Return RPN's outputs and the cells of the feature maps.

        The arrays are logits `objectness` (B, A), deltas `rpn_delta` (B, A, 4), and `cells` (B, K,
        channels).
        """
        F, inputs = self.F, self.arrays
        images = self.padded(batch["image"], batch["size"])
        maps = self.pyramid(self.stage_maps(images, self.layers.stem, self.layers.blocks))
        last = F.Pooling(
            maps[-1], kernel=(1, 1), stride=(2, 2), pool_type="max", pooling_convention="valid"
        )
        conv, *heads = self.layers.rpn
        joint = _joined(
            F, [inputs[f"{head.name}.{kind}"] for kind in ("weight", "bias") for head in heads]
        )
        of_levels = []
        for level_map in (*maps, last):
            hidden = rectified(F, self.convolution(level_map, conv))
            of_level = F.Convolution(hidden, *joint, num_filter=BLOCK, kernel=(1, 1))
            of_levels.append(F.reshape(of_level, (0, 0, -1)))
        # The channels of a cell are the logits of its anchors, followed by four deltas for each
        # anchor.
        planes = F.transpose(F.concat(*of_levels, dim=2), (0, 2, 1))
        stops = (0, network.RATIOS, 5 * network.RATIOS)
        logits, deltas = (
            F.slice_axis(planes, axis=2, begin=stops[i], end=stops[i + 1]) for i in range(2)
        )
        channels = self.layers.outer[0].outputs
        cells = [
            F.reshape(F.transpose(level_map, (0, 2, 3, 1)), (0, -1, channels)) for level_map in maps
        ]
        objectness, rpn_delta = F.reshape(logits, (0, -1)), F.reshape(deltas, (0, -1, 4))
        return {"objectness": objectness, "rpn_delta": rpn_delta, "cells": F.concat(*cells, dim=1)}

    def pyramid(self, stages: list[Tensor]) -> list[Tensor]:
        """Return the feature maps of the pyramid's levels, with the finest map first.

        `stages` contains the output feature maps of the trunk's stages.
        """
        F = self.F
        layers = zip(stages, self.layers.inner, strict=True)
        inner = [self.convolution(stage, layer) for stage, layer in layers]
        for number in reversed(range(len(inner) - 1)):
            inner[number] = inner[number] + F.UpSampling(
                inner[number + 1], scale=2, sample_type="nearest"
            )
        outer = zip(inner, self.layers.outer, strict=True)
        return [self.convolution(lateral, layer) for lateral, layer in outer]

    # -- the second half
    # --------------------------------------------------------------------------------------------

    def boxes(self, pooled: Tensor) -> list[Tensor]:
        """Return class logits (N, C + 1) and deltas (N · (C + 1), 4).

        `pooled` contains the pooled regions (N, side², channels).
        """
        F, inputs = self.F, self.arrays
        x = F.reshape(F.transpose(pooled, (0, 2, 1)), (0, -1))
        *hidden, logits, deltas = self.layers.box
        for layer in hidden:
            arrays = (inputs[f"{layer.name}.{kind}"] for kind in ("weight", "bias"))
            x = rectified(F, F.FullyConnected(x, *arrays, num_hidden=layer.outputs))
        weight, bias = (
            F.concat(*(inputs[f"{layer.name}.{kind}"] for layer in (logits, deltas)), dim=0)
            for kind in ("weight", "bias")
        )
        x = F.FullyConnected(x, weight, bias, num_hidden=logits.outputs + deltas.outputs)
        moves = F.slice_axis(x, axis=1, begin=logits.outputs, end=logits.outputs + deltas.outputs)
        return [F.slice_axis(x, axis=1, begin=0, end=logits.outputs), F.reshape(moves, (-1, 4))]

    def masks(self, pooled: Tensor, label: Tensor) -> Tensor:
        """Return mask logits (n, 28, 28) for the classes `label` (n,) only.

        `pooled` contains the pooled regions (n, side², channels).

        The transposed convolution is computed as a 1×1 convolution with a channel for each corner
        of a pixel. All following layers are pointwise, so the order of pixels is restored only in
        the logits. oneDNN's transposed convolution would take three times as long as the 1×1
        convolution.
        """
        F, inputs = self.F, self.arrays
        side, up = self.layers.mask_pool, self.layers.mask_up
        x = F.transpose(F.reshape(pooled, (0, side, side, -1)), (0, 3, 1, 2))
        for layer in self.layers.mask_convolutions:
            x = rectified(F, self.convolution(x, layer))
        weight, bias = (inputs[f"{up.name}.{kind}"] for kind in ("weight", "bias"))
        weight = F.reshape(F.transpose(weight, (1, 2, 3, 0)), (-1, up.inputs, 1, 1))
        x = F.Convolution(
            x, weight, F.repeat(bias, repeats=4), num_filter=4 * up.outputs, kernel=(1, 1)
        )
        x = F.reshape(rectified(F, x), (-1, up.outputs, 4 * side * side))
        name = self.layers.mask_logits.name
        of_label = F.take(F.reshape(inputs[f"{name}.weight"], (0, -1)), label)
        shift = F.reshape(F.take(inputs[f"{name}.bias"], label), (-1, 1, 1))
        logits = F.broadcast_add(F.batch_dot(F.expand_dims(of_label, 1), x), shift)
        corners = F.transpose(F.reshape(logits, (-1, 2, 2, side, side)), (0, 3, 1, 4, 2))
        return F.reshape(corners, (-1, 2 * side, 2 * side))


def _detected(model: Detector, batch: Inputs) -> dict[str, Tensor]:
    """Return class probabilities (N, C + 1) and box deltas."""
    logits, deltas = model.boxes(batch["pooled"])
    return {"probabilities": model.F.softmax(logits, axis=1), "deltas": deltas}


def _shown(model: Detector, batch: Inputs) -> dict[str, Tensor]:
    """Return mask probabilities (n, 28, 28)."""
    return {"mask": model.F.sigmoid(model.masks(batch["mask_pooled"], batch["mask_label"]))}


def _joined(F: ModuleType, arrays: list[Tensor]) -> list[Tensor]:
    """Merge RPN's two 1×1 convolutions into a single convolution.

    Weights and biases are padded with zeros to a full oneDNN block.
    """
    count, joint = 5 * network.RATIOS, []
    for pair in (arrays[:2], arrays[2:]):
        empty = F.zeros_like(F.slice_axis(pair[1], axis=0, begin=0, end=BLOCK - count))
        joint.append(F.concat(*pair, empty, dim=0))
    return joint


def _entropy(F: ModuleType, logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the binary cross-entropy of each logit with the target `wanted`."""
    return F.Activation(logits, act_type="softrelu") - logits * wanted


def _smooth_l1(F: ModuleType, predicted: Tensor, wanted: Tensor, root: float) -> Tensor:
    """Return the smooth L1 loss (n,), summed over the four deltas (n, 4)."""
    return F.sum(F.smooth_l1(predicted - wanted, scalar=root), axis=1)


@dataclass
class Learned:
    """Inputs of the network's second half on one context."""

    leaves: dict[str, mx.nd.NDArray]
    """The arrays `objectness`, `rpn_delta`, `pooled`, and `mask_pooled`. The backward pass of the
    first half receives the gradients of these arrays.
    """
    data: Inputs
    pools: tuple[Pool, Pool]


class MaskRCNNTrainer(ImageTrainer):
    """Mask R-CNN trainer for all devices of this process."""

    workload: MaskRCNN
    inputs = evaluation_inputs = ("image", "size")
    model: Detector

    def __init__(self, workload: MaskRCNN, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.rules = workload.region_rules

    def build_model(self, half: bool, on_cpu: bool) -> Detector:
        return Detector(self.workload.network, half, on_cpu)

    def build(self) -> None:
        super().build()
        shapes, slots = (
            len(self.workload.image_shapes),
            math.ceil(self.rules.positives / host.SLOTS_ROUNDED),
        )
        self.training_graphs.fixed = self.evaluation_graphs.fixed = shapes <= MAX_FIXED_SHAPES
        few = shapes * slots <= MAX_FIXED_SHAPES
        self.second_half = self.graphs_of(
            lambda model, batch: {"loss": self.loss(model, batch)}, few
        )
        self.boxes = self.graphs_of(_detected, fixed=False)
        self.masks = self.graphs_of(_shown, fixed=False)

    def training_pass(self, model: Detector, batch: Inputs) -> Mapping[str, Tensor]:
        """Compute the first half of the network."""
        return model.first_half(batch)

    def evaluation_pass(self, model: Detector, batch: Inputs) -> Mapping[str, Tensor]:
        """Compute the first half of the network."""
        return model.first_half(batch)

    def parameter_rule(self, name: str) -> ParameterRule:
        """Return the update rule of a parameter.

        Scales and shifts of frozen batch norms are not trained.
        """
        if name in network.constants(self.workload.network):
            return ParameterRule(frozen=True)
        return super().parameter_rule(name)

    # -- training
    # ----------------------------------------------------------------------------------------------

    def loss(self, model: Detector, batch: Inputs) -> Tensor:
        """Return the sum of the five losses of this device's batch.

        The losses are means over the batch, multiplied by the number of images.

        All devices have the same number of images. The mean over the global batch is therefore the
        mean of the devices' means. `batch` also contains the arrays of `Learned`.
        """
        images = self.settings.global_batch_size // self.settings.devices
        return model.F.sum(model.F.concat(*self.losses(model, batch).values(), dim=0)) * images

    def losses(self, model: Detector, batch: Inputs) -> dict[str, Tensor]:
        """Return the five losses of a device's batch by name, each (1,).

        `anchor` and `own_delta` are indices into flat arrays. The shapes are `label` and `weight`
        (N,), `delta` (N, 4), and `mask` (n, 28, 28).
        """
        F = model.F
        anchor, is_object, used = (
            batch[name] for name in ("anchor", "anchor_label", "anchor_weight")
        )
        objectness = F.take(F.reshape(batch["objectness"], (-1,)), anchor)
        rpn_delta = F.take(F.reshape(batch["rpn_delta"], (-1, 4)), anchor)
        logits, deltas = model.boxes(batch["pooled"])
        label, weight, delta = (batch[name] for name in ("label", "weight", "delta"))
        of_class = -F.pick(F.log_softmax(logits, axis=1), label, axis=1)
        of_box = _smooth_l1(F, F.take(deltas, batch["own_delta"]), delta, 1)
        mask_logits = model.masks(batch["mask_pooled"], batch["mask_label"])
        of_masks = F.mean(_entropy(F, mask_logits, batch["mask"]), axis=(1, 2))
        positive = F.cast(batch["mask_label"] > 0, "float32")
        of_rpn = _smooth_l1(F, rpn_delta, batch["anchor_offset"], RPN_BETA_ROOT)
        sampled, regions, positives = (
            F.maximum(F.sum(counted), 1) for counted in (used, weight, positive)
        )
        return {
            "objectness": F.sum(_entropy(F, objectness, is_object) * used) / sampled,
            "rpn_box": F.sum(of_rpn * is_object * used) / sampled,
            "class": F.sum(of_class * weight) / regions,
            "box": F.sum(of_box * F.cast(label > 0, "float32")) / regions,
            "mask": F.sum(of_masks * positive) / positives,
        }

    def backward(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        return in_turn([self._trained(number, batch) for number, batch in enumerate(batches)])

    def _trained(self, number: int, batch: Batch) -> Generator[None, None, mx.nd.NDArray]:
        """Run the forward and backward passes on one context."""
        assert not self.adds_gradients, "batches are not cut into pieces"
        replica, divisor = self.replicas[number], batch.global_weight_sum
        (data,) = self.pieces(replica, batch, training=True)
        with mx.autograd.record():
            first = list(self.training_graphs(replica.arguments(True), data).values())
        yield
        learned = self.learned(replica, batch, first)
        for leaf in learned.leaves.values():
            leaf.attach_grad()
        with mx.autograd.record():
            loss = self.second_half(replica.arguments(True), {**learned.leaves, **learned.data})[
                "loss"
            ]
        loss.backward(self.optimizer.seed(number, divisor))
        gradients = {name: leaf.grad for name, leaf in learned.leaves.items()}
        of_boxes, of_masks = (
            part.back(gradients[name])
            for part, name in zip(learned.pools, ("pooled", "mask_pooled"), strict=True)
        )
        mx.autograd.backward(
            first, [gradients["objectness"], gradients["rpn_delta"], of_boxes + of_masks]
        )
        return loss.detach() / divisor

    def run_loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        works = [
            self.run_halves(number, batch, self.second_half) for number, batch in enumerate(batches)
        ]
        return [
            outputs["loss"] / batch.global_weight_sum
            for outputs, batch in zip(in_turn(works), batches, strict=True)
        ]

    def run_halves(
        self, number: int, batch: Batch, second_half: Graphs
    ) -> Generator[None, None, dict[str, mx.nd.NDArray]]:
        """Run both halves on one context, and return the outputs of the second half."""
        replica = self.replicas[number]
        (data,) = self.pieces(replica, batch, training=True)
        with mx.autograd.train_mode():
            first = list(self.training_graphs(replica.arguments(True), data).values())
        yield
        learned = self.learned(replica, batch, first)
        with mx.autograd.train_mode():
            return second_half(replica.arguments(True), {**learned.leaves, **learned.data})

    def learned(self, replica: Replica, batch: Batch, first: list[mx.nd.NDArray]) -> Learned:
        """Select regions and pool them for the second half of the network.

        `first` contains the outputs of the first half.
        """
        arrays, (objectness, deltas, cells) = batch.arrays, (output.detach() for output in first)
        proposed = self.proposals(replica, batch, first, training=True)
        sampled = host.learned(proposed, arrays, self.settings.seed, self.rules)
        slots = sampled["mask"].shape[1]
        pools = (
            self._pool(
                replica, batch, sampled["box"], sampled["level"], self.workload.network.box_pool
            ),
            self._pool(
                replica,
                batch,
                sampled["box"][:, :slots],
                sampled["level"][:, :slots],
                self.workload.network.mask_pool,
            ),
        )
        leaves = {
            "objectness": objectness,
            "rpn_delta": deltas,
            "pooled": pools[0](cells),
            "mask_pooled": pools[1](cells),
        }
        starts = np.arange(len(objectness), dtype=np.int32)[:, None] * objectness.shape[1]
        label = sampled["label"].reshape(-1)
        data = {
            "anchor": (arrays["anchor"] + starts).reshape(-1),
            **{name: arrays[name].reshape(-1) for name in ("anchor_label", "anchor_weight")},
            "anchor_offset": arrays["anchor_offset"].reshape(-1, 4),
            "mask_label": sampled["label"][:, :slots].reshape(-1),
            "label": label,
            "weight": sampled["weight"].reshape(-1),
            "delta": sampled["delta"].reshape(-1, 4),
            "own_delta": (
                np.arange(len(label), dtype=np.int32) * (self.workload.network.classes + 1) + label
            ),
            "mask": sampled["mask"].reshape(-1, *sampled["mask"].shape[2:]),
        }
        return Learned(
            leaves,
            {name: self.to_device(array, replica.context) for name, array in data.items()},
            pools,
        )

    def proposals(
        self, replica: Replica, batch: Batch, first: list[mx.nd.NDArray], training: bool
    ) -> list[Proposals]:
        """Return the proposals of each image, computed on the host.

        The method waits for the outputs of the first half.
        """
        objectness, deltas = (output.asnumpy() for output in first[:2])
        on_context = partial(suppress, context=replica.context)
        return host.proposals(
            batch.arrays, objectness, deltas, self.settings.model, self.rules, on_context, training
        )

    def _pool(
        self, replica: Replica, batch: Batch, box: Float32s, level: Int32s, side: int
    ) -> Pool:
        layers = self.workload.network
        shapes = network.map_shapes(layers, *batch.arrays["image"].shape[1:3])[: layers.levels]
        return pool(shapes, layers.strides, box, level, side, replica.context)

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def all_outputs(self, batches: list[Batch]) -> list[Outputs]:
        """Return the detections of a batch.

        The arrays are `box` (B, D, 4), `score` and `label` (B, D), and `mask` probabilities (B, D,
        28, 28).

        Slots without a detection are 0. This method replaces `outputs`, because the host selects
        regions between the halves of the network.
        """
        return in_turn([self._detected(number, batch) for number, batch in enumerate(batches)])

    def _detected(self, number: int, batch: Batch) -> Generator[None, None, Outputs]:
        replica, arrays = self.replicas[number], batch.arrays
        (data,) = self.pieces(replica, batch, training=False)
        first = list(self.evaluation_graphs(replica.arguments(False), data).values())
        yield
        boxes = [
            proposals.box for proposals in self.proposals(replica, batch, first, training=False)
        ]
        box = np.zeros((len(boxes), self.rules.of_image, 4), np.float32)
        proposed = stacked(boxes)
        box[:, : proposed.shape[1]] = proposed
        pooled = self._pool(
            replica, batch, box, self.rules.level(box), self.workload.network.box_pool
        )(first[2])
        of_boxes = self.boxes(replica.arguments(False), {"pooled": pooled}).values()
        yield
        probabilities, deltas = (
            output.asnumpy().reshape(*box.shape[:2], self.workload.network.classes + 1, -1)
            for output in of_boxes
        )
        on_context = partial(suppress, context=replica.context)
        detected = detect(
            boxes, probabilities[..., 0], deltas, arrays["size"], self.rules, on_context
        )
        slots = host.slots(detected.label > 0)
        pooled = self._pool(
            replica,
            batch,
            detected.box[:, :slots],
            detected.level[:, :slots],
            self.workload.network.mask_pool,
        )(first[2])
        label = self.to_device(detected.label[:, :slots].reshape(-1), replica.context)
        some = self.masks(replica.arguments(False), {"mask_pooled": pooled, "mask_label": label})[
            "mask"
        ]
        some = some.reshape((len(boxes), slots, *some.shape[1:]))
        mask = mx.nd.zeros(
            (len(boxes), self.rules.detections, *some.shape[2:]), ctx=replica.context
        )
        mask[:, :slots] = some
        values = {
            name: self.to_device(getattr(detected, name), replica.context)
            for name in ("box", "score", "label")
        }
        return {name: [value] for name, value in {**values, "mask": mask}.items()}
