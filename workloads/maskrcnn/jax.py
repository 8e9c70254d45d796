"""Mask R-CNN in JAX, in NHWC layout.

The shapes use these symbols: B images of a replica, H × W pixels, h × w cells of a feature map, C
classes without background, A anchors, S sampled anchors, R regions of an image, M of which may be
positive, D detections. network.py lists the names of the parameters.

A step is a single compiled function for each batch shape. The device selects the regions
(regions/jax.py). The host computes only the mask targets, because COCO's tool rasterizes the masks
on the host.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workloads.api import Array, Arrays, Batch, ParameterRule, WorkerContext
from workloads.frameworks.jax.images import ImageTrainer, Layers, smooth_l1
from workloads.frameworks.jax.model import words
from workloads.frameworks.jax.optimizers import Values
from workloads.frameworks.jax.regions import pool
from workloads.maskrcnn import anchors, network
from workloads.maskrcnn.regions import host, rois
from workloads.maskrcnn.regions import jax as regions
from workloads.maskrcnn.workload import MaskRCNN

Maps = list[jax.Array]


class Detector(Layers):
    """Mask R-CNN network.

    The network maps uint8 images (B, H, W, 3) to RPN outputs, and regions to the outputs of the
    heads.
    """

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(
        self, weights: Values, statistics: Values, dtype: Any, layers: network.Network
    ) -> None:
        super().__init__(weights, statistics, dtype)
        self.layers = layers

    def first_half(
        self, images: jax.Array, sizes: jax.Array, training: bool
    ) -> tuple[Maps, jax.Array, jax.Array]:
        """Return the pyramid's feature maps, RPN's logits (B, A), and RPN's deltas (B, A, 4).

        `sizes` (B, 2) contains the image sizes without padding.

        With `training`, the running statistics are updated.
        """
        self.training = training
        maps = self.pyramid(self.stage_maps(self.centred(images, sizes), self.layers))
        hidden, *heads = self.layers.rpn
        weight = jnp.concatenate([self.parameter(f"{head.name}.weight")[0, 0] for head in heads], 1)
        bias = jnp.concatenate([self.parameter(f"{head.name}.bias") for head in heads])
        logits, deltas = [], []
        for level_map in (*maps, maps[-1][:, ::2, ::2]):
            x = (jax.nn.relu(self.biased(level_map, hidden)) @ weight + bias).astype(jnp.float32)
            logits.append(x[..., : network.RATIOS].reshape(len(x), -1))
            deltas.append(x[..., network.RATIOS :].reshape(len(x), -1, 4))
        return maps, jnp.concatenate(logits, 1), jnp.concatenate(deltas, 1)

    def centred(self, images: jax.Array, sizes: jax.Array) -> jax.Array:
        """Return blue, green, and red minus their means, (B, H, W, 3).

        Pixels beyond the image sizes `sizes` (B, 2) are padding and become 0.
        """
        x = images[..., ::-1].astype(jnp.float32) - jnp.array(network.BGR_MEANS, jnp.float32)
        rows, columns = (
            jnp.arange(images.shape[axis + 1]) < sizes[:, axis, None] for axis in (0, 1)
        )
        return jnp.where(rows[:, :, None, None] & columns[:, None, :, None], x, 0).astype(
            self.dtype
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
            inner[number] += inner[number + 1].repeat(2, 1).repeat(2, 2)
        return [
            self.biased(lateral, layer)
            for lateral, layer in zip(inner, self.layers.outer, strict=True)
        ]

    def boxes(self, maps: Maps, box: jax.Array, level: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return class logits (B, R, C + 1) and deltas (B, R, C + 1, 4) of regions (B, R, 4)."""
        *hidden, logits, deltas = self.layers.box
        x = pool(maps, self.layers.strides, box, level, self.layers.box_pool).astype(self.dtype)
        # The channels come first, because the weights expect this order.
        x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
        for layer in hidden:
            x = jax.nn.relu(self.dense(x, layer.name))
        shape = (*level.shape, self.layers.classes + 1)
        outputs = (self.dense(x, layer.name).astype(jnp.float32) for layer in (logits, deltas))
        return next(outputs).reshape(shape), next(outputs).reshape(*shape, 4)

    def masks(self, maps: Maps, box: jax.Array, level: jax.Array, label: jax.Array) -> jax.Array:
        """Return the mask logits (B, M, 28, 28) of regions (B, M, 4).

        The logits are computed only for the class `label` of each region.

        The transposed convolution is a single matrix product that computes four output cells from
        each input cell. After the last layer, when the map has a single channel, the four cells are
        moved to their positions in the map.
        """
        x = pool(maps, self.layers.strides, box, level, self.layers.mask_pool).astype(self.dtype)
        for layer in self.layers.mask_convolutions:
            x = jax.nn.relu(self.biased(x, layer))
        up, last = self.layers.mask_up, self.layers.mask_logits
        x = jnp.einsum("nyxi,rcoi->nyxrco", x, self.parameter(f"{up.name}.weight"))
        x = jax.nn.relu(x + self.parameter(f"{up.name}.bias"))
        of_label = self.parameter(f"{last.name}.weight")[0, 0].T[label.ravel()]
        logits = jnp.einsum("nyxrco,no->nyrxc", x, of_label).astype(jnp.float32)
        side = 2 * self.layers.mask_pool
        return (
            logits.reshape(*label.shape, side, side)
            + self.weights[f"{last.name}.bias"][label][..., None, None]
        )


def losses(outputs: Values, batch: Mapping[str, jax.Array]) -> Values:
    """Return the five losses of a device's batch by name, each a scalar.

    `outputs` contains the arrays of `regions.sample`, `mask`, `objectness`, `rpn_delta`, `logits`,
    `box_delta`, and `mask_logits`. `batch` contains `anchor`, `anchor_label`, and `anchor_weight`
    (B, S), and `anchor_offset` (B, S, 4).
    """
    weight, label = batch["anchor_weight"], outputs["label"]
    rpn = jnp.take_along_axis(outputs["objectness"], batch["anchor"], 1)
    rpn_delta = jnp.take_along_axis(outputs["rpn_delta"], batch["anchor"][..., None], 1)
    rpn_box = (
        smooth_l1(rpn_delta - batch["anchor_offset"], network.RPN_BETA).sum(-1) / network.RPN_BETA
    )
    of_label = jnp.take_along_axis(outputs["box_delta"], label[..., None, None], 2)[:, :, 0]
    box = smooth_l1(of_label - outputs["delta"], 1.0).sum(-1)
    log_likelihood = jnp.take_along_axis(
        jax.nn.log_softmax(outputs["logits"]), label[..., None], 2
    )[..., 0]
    of_masks = _entropy(outputs["mask_logits"], outputs["mask"]).mean((2, 3))
    in_slots = label[:, : of_masks.shape[1]] > 0
    return {
        "objectness": _mean(_entropy(rpn, batch["anchor_label"]), weight, weight),
        "rpn_box": _mean(rpn_box, batch["anchor_label"] * weight, weight),
        "class": _mean(-log_likelihood, outputs["weight"], outputs["weight"]),
        "box": _mean(box, label > 0, outputs["weight"]),
        "mask": _mean(of_masks, in_slots, in_slots),
    }


def _mean(values: jax.Array, weights: jax.Array, counted: jax.Array) -> jax.Array:
    """Return the weighted sum of `values`, divided by the sum of `counted`.

    The divisor is at least 1.
    """
    return (values * weights).sum() / jnp.maximum(counted.sum(), 1)


def _entropy(logits: jax.Array, wanted: jax.Array) -> jax.Array:
    """Return the binary cross-entropy of each logit with the target `wanted`."""
    return jnp.logaddexp(0, logits) - logits * wanted


class MaskRCNNTrainer(ImageTrainer):
    """Mask R-CNN trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: MaskRCNN
    inputs = (
        "image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset", "box", "label",
        "anchor_hash", "object_hash", "ticket",
    )  # fmt: skip
    evaluation_inputs = ("image", "size")

    def __init__(self, workload: MaskRCNN, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        assert self.updates.accumulation_steps == 1, "proposals are limited for whole batches"
        layers = workload.network
        self.parameters = {**network.shapes(layers), **network.constants(layers)}
        self.statistics = network.statistics(layers)
        self.rules = workload.region_rules
        self.tickets = itertools.count()
        self.under_way: dict[int, Arrays] = {}
        """Arrays of the batches whose steps have not finished, by ticket. The dictionary may
        contain several batches, because a step is dispatched before the previous steps have
        finished.
        """

    def parameter_rule(self, name: str) -> ParameterRule:
        """Return the update rule of a parameter.

        Scales and shifts of frozen batch norms are not trained.
        """
        if name in network.constants(self.workload.network):
            return ParameterRule(frozen=True)
        return super().parameter_rule(name)

    def build_model(self, weights: Values, statistics: Values) -> Detector:
        """Return the network of the workload with these weights."""
        return Detector(weights, statistics, self.dtype, self.workload.network)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the batch arrays with the hashes for `regions.sample` and a ticket.

        The ticket is a number by which the host finds the batch arrays when it computes the mask
        targets.
        """
        if not training:
            return super().host_arrays(batch, training)
        arrays, ticket = batch.arrays, next(self.tickets)
        self.under_way[ticket] = arrays
        keys = self.settings.seed, int(arrays["epoch"][0]), arrays["number"]
        count = anchors.count(self.settings.model, *arrays["image"].shape[1:3])
        of_anchors = rois.hashes(*keys, rois.OF_ANCHORS, count)
        of_objects = rois.hashes(*keys, rois.OF_OBJECTS, arrays["label"].shape[1])
        more = {"anchor_hash": words(of_anchors), "object_hash": words(of_objects)}
        more["ticket"] = np.array([ticket], np.int32)
        return super().host_arrays(replace(batch, arrays={**arrays, **more}), training)

    def loss(self, model: Detector, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the sum of the five losses of this device's batch.

        The losses are means over the batch, multiplied by the number of images.

        All devices have the same number of images. The mean over the global batch is therefore the
        mean of the devices' means.
        """
        return sum(self.losses(model, batch).values(), jnp.float32(0)) * len(batch["image"])

    def losses(self, model: Detector, batch: Mapping[str, jax.Array]) -> Values:
        """Return the five losses of this device's batch by name."""
        maps, objectness, deltas = model.first_half(batch["image"], batch["size"], training=True)
        proposed = jax.lax.optimization_barrier(self.proposals(objectness, deltas, batch, True))
        # Without barriers, XLA recomputes the proposals and samples for every use of a region, and
        # compilation takes minutes.
        learned = jax.lax.optimization_barrier(regions.sample(proposed, dict(batch), self.rules))
        predicted = {
            "objectness": objectness,
            "rpn_delta": deltas,
            "mask": self.mask_targets(learned, batch["ticket"]),
        }
        predicted["logits"], predicted["box_delta"] = model.boxes(
            maps, learned["box"], learned["level"]
        )
        some = (learned[name][:, : self.rules.positives] for name in ("box", "level", "label"))
        predicted["mask_logits"] = model.masks(maps, *some)
        return losses({**learned, **predicted}, batch)

    def proposals(
        self,
        objectness: jax.Array,
        deltas: jax.Array,
        batch: Mapping[str, jax.Array],
        training: bool,
    ) -> regions.Proposals:
        """Return the proposals of a batch.

        Gradients do not propagate through proposals.
        """
        levels = anchors.level_anchors(self.settings.model, *batch["image"].shape[1:3])
        objectness, deltas = jax.lax.stop_gradient((objectness, deltas))
        return regions.propose(objectness, deltas, levels, batch["size"], self.rules, training)

    def mask_targets(self, learned: Values, ticket: jax.Array) -> jax.Array:
        """Return the mask targets (B, M, 28, 28), which the host computes.

        A target is 1 in the cells that the object of the region covers, otherwise 0.
        """
        slots, side = learned["object"].shape, self.rules.mask_side
        wanted = jax.ShapeDtypeStruct((*slots, side, side), jnp.float32)
        inputs = (
            learned["box"][:, : slots[1]],
            learned["label"][:, : slots[1]],
            learned["object"],
            ticket,
        )
        return jax.pure_callback(self._mask_targets, wanted, *inputs)

    def _mask_targets(self, box: Array, label: Array, owner: Array, ticket: Array) -> Array:
        # The arrays are converted to NumPy first, because indexing a JAX array is a device
        # operation. Such an operation would wait for the current step, while the step waits for
        # this call.
        box, label, owner, (number,) = (np.asarray(array) for array in (box, label, owner, ticket))
        return host.mask_targets(
            box, label, owner, self.under_way.pop(int(number)), self.rules.mask_side
        )

    def outputs(self, model: Detector, batch: Mapping[str, jax.Array]) -> Values:
        """Return the detections of a batch.

        The arrays are `box` (B, D, 4), `score` and `label` (B, D), and `mask` probabilities (B, D,
        28, 28).

        Slots without a detection are 0.
        """
        maps, objectness, deltas = model.first_half(batch["image"], batch["size"], training=False)
        proposed = self.proposals(objectness, deltas, batch, training=False)
        logits, deltas = model.boxes(maps, proposed.box, self.rules.level(proposed.box))
        probabilities = jax.nn.softmax(logits)
        detected = regions.detect(proposed, probabilities, deltas, batch["size"], self.rules)
        level = detected.pop("level")
        masks = model.masks(maps, detected["box"], level, detected["label"])
        return {**detected, "mask": jax.nn.sigmoid(masks)}
