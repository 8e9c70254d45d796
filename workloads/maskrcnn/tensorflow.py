"""Mask R-CNN in TensorFlow, in NHWC layout.

pytorch.py describes the order of computations, and network.py lists the parameter names. The shapes
use these symbols: B images of a replica, H × W pixels, h × w cells of a feature map, C classes
without background, A anchors, S sampled anchors, R regions of an image, M of which may be positive,
D detections.

A step is a single traced function of the batch's fixed shapes. Between the two halves of the
network, the step calls the host (`tf.numpy_function`). On a GPU, a step waits for this call. With
`compile`, XLA compiles the first half and the heads. XLA does not compile the pooling and the
region selection on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, Batch, WorkerContext
from workloads.frameworks.tensorflow.images import ImageModel, ImageTrainer
from workloads.frameworks.tensorflow.regions import bordered, pool, suppress
from workloads.frameworks.tensorflow.variables import Tensors
from workloads.maskrcnn import network
from workloads.maskrcnn.regions import host
from workloads.maskrcnn.regions.detections import detect
from workloads.maskrcnn.regions.proposals import Proposals
from workloads.maskrcnn.regions.rules import stacked
from workloads.maskrcnn.workload import MaskRCNN

Maps = list[tf.Tensor]
Half = tuple[Maps, tf.Tensor, tf.Tensor]
"""The pyramid's bordered feature maps, RPN's logits (B, A), and RPN's deltas (B, A, 4)."""

LEARNED = {
    "box": tf.float32,
    "level": tf.int32,
    "label": tf.int32,
    "weight": tf.float32,
    "delta": tf.float32,
}
"""Arrays that the host computes in training between the two halves of the network, in addition to
`mask`.
"""
DETECTED = {"box": tf.float32, "score": tf.float32, "label": tf.int32, "level": tf.int32}


class Detector(ImageModel):
    """Mask R-CNN network.

    The network maps uint8 images (B, H, W, 3) to RPN outputs, and regions to the outputs of the
    heads.
    """

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(
        self, layers: network.Network, dtype: tf.DType, as_products: bool, compiled: bool
    ) -> None:
        shapes = network.shapes(layers), network.statistics(layers)
        super().__init__(*shapes, dtype, as_products, network.constants(layers))
        self.layers, self.compiled = layers, compiled
        part: Callable[..., Any] = (
            partial(tf.function, autograph=False, jit_compile=True) if compiled else lambda f: f
        )
        self.first_half, self._box_head, self._mask_head = map(
            part, (self._first_half, self._boxes, self._masks)
        )

    def _first_half(self, images: tf.Tensor, sizes: tf.Tensor, training: bool) -> Half:
        """Compute the first half of the network.

        `sizes` (B, 2) contains the image sizes without padding. With `training`, the running
        statistics are updated.
        """
        maps = self.pyramid(self.stage_maps(self.normalised(images, sizes), self.layers, training))
        hidden, *heads = self.layers.rpn
        weight = tf.concat([self.parameter(f"{head.name}.weight") for head in heads], 3)
        bias = tf.concat([self.parameter(f"{head.name}.bias") for head in heads], 0)
        logits, deltas = [], []
        for level_map in (*maps, maps[-1][:, ::2, ::2]):
            x = tf.nn.relu(self.biased(level_map, hidden))
            x = tf.cast(tf.nn.bias_add(self.convolve(x, weight, 1, 0), bias), tf.float32)
            logits.append(tf.reshape(x[..., : network.RATIOS], [x.shape[0], -1]))
            deltas.append(tf.reshape(x[..., network.RATIOS :], [x.shape[0], -1, 4]))
        return bordered(maps), tf.concat(logits, 1), tf.concat(deltas, 1)

    def normalised(self, images: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        """Return blue, green, and red minus their means, (B, H, W, 3).

        Pixels beyond the image sizes `sizes` (B, 2) are padding and become 0.
        """
        x = tf.cast(tf.reverse(images, [3]), tf.float32) - tf.constant(network.BGR_MEANS)
        rows = tf.range(images.shape[1]) < sizes[:, :1]
        columns = tf.range(images.shape[2]) < sizes[:, 1:]
        return tf.cast(
            tf.where(rows[:, :, None, None] & columns[:, None, :, None], x, 0), self.dtype
        )

    def pyramid(self, stages: Maps) -> Maps:
        """Return the feature maps of the pyramid's levels, with the finest map first.

        `stages` contains the output feature maps of the trunk's stages.
        """
        inner = [
            self.biased(stage, layer)
            for stage, layer in zip(stages, self.layers.inner, strict=True)
        ]
        for number in reversed(range(len(inner) - 1)):
            inner[number] = self._added(inner[number], inner[number + 1])
        return [
            self.biased(lateral, layer)
            for lateral, layer in zip(inner, self.layers.outer, strict=True)
        ]

    def _added(self, finer: tf.Tensor, coarser: tf.Tensor) -> tf.Tensor:
        """Return the sum of a feature map and the upsampled next coarser map.

        The upsampling repeats the cells of the coarser map twice in each direction.

        With XLA, the cells are repeated by a broadcast, because XLA's resize operator has no
        gradient. Without XLA, the cells are repeated by a resize, because a broadcast takes four
        times as long.
        """
        if not self.compiled:
            return finer + tf.raw_ops.ResizeNearestNeighbor(images=coarser, size=finer.shape[1:3])
        count, height, width, channels = coarser.shape
        cells = tf.reshape(finer, [count * height, 2, width, 2, channels])
        return tf.reshape(
            cells + tf.reshape(coarser, [count * height, 1, width, 1, channels]), finer.shape
        )

    def boxes(self, maps: Maps, box: tf.Tensor, level: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return class logits (B, R, C + 1) and deltas (B, R, C + 1, 4) of regions."""
        logits, deltas = self._box_head(
            pool(maps, self.layers.strides, box, level, self.layers.box_pool)
        )
        shape = [box.shape[0], -1, self.layers.classes + 1]
        return tf.reshape(logits, shape), tf.reshape(deltas, [*shape, 4])

    def _boxes(self, pooled: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return class logits (N, C + 1) and deltas (N, 4 · (C + 1)).

        `pooled` contains the pooled maps (N, 7, 7, channels).

        The method transposes the maps to channels first, because the weights expect this order.
        """
        first, second, logits, deltas = self.layers.box
        x = tf.reshape(tf.transpose(tf.cast(pooled, self.dtype), [0, 3, 1, 2]), [-1, first.inputs])
        x = tf.nn.relu(self._dense(tf.nn.relu(self._dense(x, first)), second))
        return tf.cast(self._dense(x, logits), tf.float32), tf.cast(
            self._dense(x, deltas), tf.float32
        )

    def _dense(self, x: tf.Tensor, layer: network.Dense) -> tf.Tensor:
        product = tf.matmul(x, self.parameter(f"{layer.name}.weight"), transpose_b=True)
        return tf.nn.bias_add(product, self.parameter(f"{layer.name}.bias"))

    def masks(self, maps: Maps, box: tf.Tensor, level: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return the mask logits (B, M, 28, 28) of regions.

        The logits are computed only for the class `label` of each region.
        """
        pooled = pool(maps, self.layers.strides, box, level, self.layers.mask_pool)
        logits = self._mask_head(pooled, tf.reshape(label, [-1]))
        return tf.reshape(logits, [box.shape[0], -1, *logits.shape[1:]])

    def _masks(self, pooled: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return mask logits (N, 28, 28) for pooled maps (N, 14, 14, channels).

        `label` (N,) selects the class of each map. The transposed convolution is a single matrix
        product that computes four output cells from each input cell. After the last layer, when the
        map has a single channel, the four cells are moved to their positions in the map.
        """
        x, side = tf.cast(pooled, self.dtype), pooled.shape[1]
        for layer in self.layers.mask_convolutions:
            x = tf.nn.relu(self.biased(x, layer))
        up, last = self.layers.mask_up, self.layers.mask_logits
        weight = tf.reshape(self.parameter(f"{up.name}.weight"), [4 * up.outputs, up.inputs])
        x = tf.matmul(tf.reshape(x, [-1, up.inputs]), weight, transpose_b=True)
        x = tf.nn.relu(
            tf.nn.bias_add(tf.reshape(x, [-1, up.outputs]), self.parameter(f"{up.name}.bias"))
        )
        weights = tf.transpose(
            tf.reshape(self.parameter(f"{last.name}.weight"), [last.inputs, last.outputs])
        )
        of_label = tf.gather(weights, label)[:, :, None]
        x = tf.cast(
            tf.matmul(tf.reshape(x, [-1, 4 * side * side, up.outputs]), of_label), tf.float32
        )
        x = tf.transpose(tf.reshape(x, [-1, side, side, 2, 2]), [0, 1, 3, 2, 4])
        bias = tf.gather(self.parameters[f"{last.name}.bias"], label)
        return tf.reshape(x, [-1, 2 * side, 2 * side]) + bias[:, None, None]


def losses(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> Tensors:
    """Return the five losses of a device's batch by name, each a scalar.

    `outputs` contains the arrays that `MaskRCNNTrainer.between` returns, and `objectness`,
    `rpn_delta`, `logits`, `box_delta`, and `mask_logits`. `batch` contains `anchor`,
    `anchor_label`, and `anchor_weight` (B, S), and `anchor_offset` (B, S, 4).
    """
    anchor, is_object, weight = (
        batch[name] for name in ("anchor", "anchor_label", "anchor_weight")
    )
    offset = batch["anchor_offset"]
    label, of_slots = outputs["label"], tf.shape(outputs["mask"])[1]
    rpn_logits = tf.gather(outputs["objectness"], anchor, batch_dims=1)
    rpn_box = _smooth_l1(
        tf.gather(outputs["rpn_delta"], anchor, batch_dims=1) - offset, network.RPN_BETA
    )
    of_label = tf.gather(outputs["box_delta"], label, batch_dims=2)
    box = _smooth_l1(of_label - outputs["delta"], 1.0)
    rpn = tf.nn.sigmoid_cross_entropy_with_logits(is_object, rpn_logits)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(label, outputs["logits"])
    positive = tf.cast(label > 0, tf.float32)
    of_masks = tf.nn.sigmoid_cross_entropy_with_logits(outputs["mask"], outputs["mask_logits"])
    in_slots = positive[:, :of_slots]
    return {
        "objectness": _mean(rpn, weight, weight),
        "rpn_box": _mean(rpn_box, is_object * weight, weight),
        "class": _mean(entropy, outputs["weight"], outputs["weight"]),
        "box": _mean(box, positive, outputs["weight"]),
        "mask": _mean(tf.reduce_mean(of_masks, [2, 3]), in_slots, in_slots),
    }


def _mean(values: tf.Tensor, weights: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Return the weighted sum of `values`, divided by the sum of `counted`.

    The divisor is at least 1.
    """
    return tf.reduce_sum(values * weights) / tf.maximum(tf.reduce_sum(counted), 1)


def _smooth_l1(difference: tf.Tensor, beta: float) -> tf.Tensor:
    """Return the smooth L1 loss (…,), summed over the four deltas (…, 4)."""
    size = tf.abs(difference)
    inner = tf.minimum(size, beta)
    return tf.reduce_sum(inner * (size - 0.5 * inner), -1) / beta


class MaskRCNNTrainer(ImageTrainer):
    """Mask R-CNN trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: MaskRCNN
    inputs = ("image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset")
    evaluation_inputs = ("image", "size")

    def __init__(self, workload: MaskRCNN, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.parts_compiled, self.compiled = (
            self.compiled,
            False,
        )  # XLA does not support functions that call the host.
        assert self.updates.accumulation_steps == 1, "the host chooses regions for whole batches"
        self.rules = workload.region_rules
        self.arrays: Arrays = {}
        """Host arrays of the current batch, which the host reads between the halves of the
        network.
        """

    def build_model(self) -> Detector:
        """Return the network of the workload."""
        return Detector(self.workload.network, self.dtype, not self.on_gpu, self.parts_compiled)

    def tensors(self, batch: Batch, training: bool) -> list[tf.Tensor]:
        """Return the batch arrays on the device.

        The method also stores the host arrays that the host reads between the halves of the
        network.
        """
        self.arrays = batch.arrays
        return super().tensors(batch, training)

    def loss(self, model: Detector, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the sum of the five losses of this device's batch.

        The losses are means over the batch, multiplied by the number of images.

        All devices have the same number of images. The mean over the global batch is therefore the
        mean of the devices' means.
        """
        return tf.add_n(list(self.losses(model, batch).values())) * batch["image"].shape[0]

    def losses(self, model: Detector, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the five losses of this device's batch by name."""
        maps, objectness, deltas = model.first_half(batch["image"], batch["size"], True)
        predicted = {
            "objectness": objectness,
            "rpn_delta": deltas,
            **self.between(objectness, deltas),
        }
        predicted["logits"], predicted["box_delta"] = model.boxes(
            maps, predicted["box"], predicted["level"]
        )
        of_slots = tf.shape(predicted["mask"])[1]
        some = (predicted[name][:, :of_slots] for name in ("box", "level", "label"))
        predicted["mask_logits"] = model.masks(maps, *some)
        return losses(predicted, batch)

    def between(self, objectness: tf.Tensor, deltas: tf.Tensor) -> Tensors:
        """Return the arrays that the host computes for training.

        The arrays are `LEARNED`, (B, R, …) each, and `mask` (B, M, 28, 28).

        Gradients do not propagate through these arrays.
        """
        side, types = self.rules.mask_side, {**LEARNED, "mask": tf.float32}
        outputs = tf.numpy_function(self.learned, [objectness, deltas], list(types.values()))
        arrays = dict(zip(types, outputs, strict=True))
        slots = self.rules.positives if self.parts_compiled else None
        for name, array in arrays.items():
            ends = [4] if name in ("box", "delta") else []
            shape = [slots, side, side] if name == "mask" else [self.rules.regions, *ends]
            array.set_shape([objectness.shape[0], *shape])
        return arrays

    def proposals(self, objectness: Array, deltas: Array, training: bool) -> list[Proposals]:
        """Return the proposals of each image of the batch."""
        return host.proposals(
            self.arrays, objectness, deltas, self.settings.model, self.rules, suppress, training
        )

    def learned(self, objectness: Array, deltas: Array) -> list[Array]:
        """Compute the arrays of `between` on the host."""
        proposed = self.proposals(objectness, deltas, training=True)
        arrays = host.learned(
            proposed, self.arrays, self.settings.seed, self.rules, every_slot=self.parts_compiled
        )
        return [arrays[name] for name in (*LEARNED, "mask")]

    def outputs(self, model: Detector, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the detections of a batch.

        The tensors are `box` (B, D, 4), `score` and `label` (B, D), and `mask` probabilities (B, D,
        28, 28).

        Slots without a detection are 0.
        """
        maps, objectness, deltas = model.first_half(batch["image"], batch["size"], False)
        count, most = batch["image"].shape[0], self.rules.of_image if self.parts_compiled else None
        box, level, counts = tf.numpy_function(
            self.proposed, [objectness, deltas], [tf.float32, tf.int32, tf.int32]
        )
        box.set_shape([count, most, 4])
        level.set_shape([count, most])
        logits, deltas = model.boxes(maps, box, level)
        inputs = [box, counts, tf.nn.softmax(logits), deltas]
        arrays = tf.numpy_function(self.detected, inputs, [*DETECTED.values(), tf.int32])
        detected = dict(zip(DETECTED, arrays, strict=False))
        slots = [self.rules.detections, 4]
        for name, array in detected.items():
            array.set_shape([count, *slots[: 2 if name == "box" else 1]])
        used = self.rules.detections if self.parts_compiled else arrays[-1]
        mask = tf.sigmoid(
            model.masks(maps, *(detected[name][:, :used] for name in ("box", "level", "label")))
        )
        mask = tf.pad(mask, [[0, 0], [0, self.rules.detections - used], [0, 0], [0, 0]])
        return {name: detected[name] for name in ("box", "score", "label")} | {"mask": mask}

    def proposed(self, objectness: Array, deltas: Array) -> tuple[Array, Array, Array]:
        """Compute the proposals (B, R, 4) and their pyramid levels (B, R) on the host.

        The third result is the number of proposals per image (B,).
        """
        proposals = self.proposals(objectness, deltas, training=False)
        box = stacked([of_image.box for of_image in proposals])
        if self.parts_compiled:
            box = np.pad(box, [(0, 0), (0, self.rules.of_image - box.shape[1]), (0, 0)])
        return (
            box,
            self.rules.level(box),
            np.array([len(of_image) for of_image in proposals], np.int32),
        )

    def detected(
        self, box: Array, counts: Array, probabilities: Array, deltas: Array
    ) -> list[Array]:
        """Compute the arrays of `DETECTED` on the host.

        The last array is the number of slots for which masks are computed.
        """
        proposed = [of_image[:count] for of_image, count in zip(box, counts, strict=True)]
        detections = detect(
            proposed, probabilities, deltas, self.arrays["size"], self.rules, suppress
        )
        slots = np.array(host.slots(detections.label > 0), np.int32)
        return [*(getattr(detections, name) for name in DETECTED), slots]
