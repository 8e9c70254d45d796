"""Mask R-CNN in PyTorch, channels-last.

Shapes: B images of a replica, padded to H × W pixels, C classes without background, A anchors, S sampled ones, R regions
of an image, M of which may be positive, D detections. Batches: see data.py. Names of parameters: network.py.

The order of computations, which the other frameworks follow:

A, on the device. Images uint8 (B, H, W, 3) RGB to BGR float minus the means, 0 beyond `size`; stem, stages, pyramid, RPN
   on all levels: logits (B, A) and deltas (B, A, 4), levels from the finest, cells row by row, anchors of a cell.
B, on the host, from their values (no gradient flows through boxes): `regions.proposals.propose`; in training
   `regions.rois.sample` and `masks.targets`, cut to as many positive slots as the batch needs, rounded up (regions/host.py).
   On a GPU the same on the device, with all slots (regions/pytorch.py), mask targets too where the kernel for them runs.
C, on the device. Regions pooled to 7×7, box head, class logits (B, R, C + 1) and deltas (B, R, C + 1, 4). In training the
   first slots pooled to 14×14, mask head, the logits of each slot's own class (B, M, 28, 28).
Losses, in fp32, each over its own count, at least 1, on *this device*: RPN's binary cross-entropy and smooth L1 (β = 1/9)
   over the sampled anchors; cross-entropy and smooth L1 (β = 1, of the positives' own classes) over the sampled regions;
   binary cross-entropy over the positives, mean over a mask's pixels. Their sum over the number of devices is a replica's
   part, as the reference's average over devices has it. Everything is used in every step with weights of 0 or 1: without
   a positive all gradients of the mask head are there, and 0.

In evaluation: A, `propose`, box head, softmax, `regions.detections.detect`, mask head on the detections, sigmoid of their
own class. On a GPU all of it on the device, where the kernel of suppression runs; else B on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.api import Arrays, Batch, WorkerContext
from workloads.frameworks.pytorch import kernels
from workloads.frameworks.pytorch.images import ImageTrainer
from workloads.frameworks.pytorch.linear import linear
from workloads.frameworks.pytorch.norms import BatchNorm
from workloads.frameworks.pytorch.regions import pool, suppress
from workloads.frameworks.pytorch.residual import FrozenNorm, Norm, Trunk, convolution
from workloads.maskrcnn import anchors, network
from workloads.maskrcnn.regions import host
from workloads.maskrcnn.regions import pytorch as on_gpu
from workloads.maskrcnn.regions.detections import detect
from workloads.maskrcnn.regions.proposals import Proposals
from workloads.maskrcnn.regions.rules import stacked
from workloads.maskrcnn.workload import MaskRCNN

Tensors = dict[str, Tensor]
Between = Callable[[Tensor, Tensor], Tensors]
"""RPN's logits (B, A) and deltas (B, A, 4) to `box` (B, R, 4) and `level` (B, R), in training with what is learned of
them."""

_live: Norm = partial(BatchNorm, eps=network.BATCH_NORM_EPSILON, momentum=network.BATCH_NORM_MOMENTUM)


class Part(nn.Module):
    """Layers under the names after the dot."""

    def __init__(self, layers: list[network.Layer]) -> None:
        super().__init__()
        for layer in layers:
            self.add_module(layer.name.partition(".")[2], _module(layer))


def _module(layer: network.Layer) -> nn.Module:
    if isinstance(layer, network.Dense):
        return nn.Linear(layer.inputs, layer.outputs)
    if isinstance(layer, network.Transposed):
        return nn.ConvTranspose2d(layer.inputs, layer.outputs, 2, 2)
    return convolution(layer)


class Detector(Trunk):
    """From uint8 images to RPN's outputs, and from regions to the heads' outputs, in one forward pass."""

    def __init__(self, layers: network.Network) -> None:
        super().__init__(layers.stem, layers.blocks, FrozenNorm if layers.frozen else _live)
        self.layers = layers
        self.fpn, self.rpn = Part([*layers.inner, *layers.outer]), Part([*layers.rpn])
        self.box = Part([*layers.box])
        self.mask = Part([*layers.mask_convolutions, layers.mask_up, layers.mask_logits])
        self.register_buffer("means", torch.tensor(network.BGR_MEANS).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor, sizes: Tensor, between: Between) -> Tensors:
        """What losses need but targets of masks: `between`'s tensors, and `objectness`, `rpn_delta`, `logits`, `box_delta`,
        `mask_logits`."""
        maps, objectness, deltas = self.first_half(images, sizes)
        regions = between(objectness.detach(), deltas.detach())
        logits, box_deltas = self.boxes(maps, regions["box"], regions["level"])
        slots = regions["object"].shape[1]
        label = regions["label"][:, :slots]
        of_masks = self.masks(maps, regions["box"][:, :slots], regions["level"][:, :slots], label)
        predicted = {"objectness": objectness, "rpn_delta": deltas, "logits": logits, "box_delta": box_deltas}
        return {**regions, **predicted, "mask_logits": of_masks}

    def first_half(self, images: Tensor, sizes: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """The pyramid's maps, from images (B, H, W, 3) with `sizes` (B, 2), and RPN's logits (B, A) and deltas (B, A, 4)."""
        maps = self.pyramid(self.stage_maps(self.normalised(images, sizes)))
        objectness, deltas = [], []
        for one in (*maps, F.max_pool2d(maps[-1], 1, 2)):
            hidden = F.relu(self.rpn.conv(one), inplace=True)
            objectness.append(self.rpn.cls_logits(hidden).permute(0, 2, 3, 1).flatten(1))
            deltas.append(self.rpn.bbox_pred(hidden).permute(0, 2, 3, 1).reshape(len(one), -1, 4))
        return maps, torch.cat(objectness, 1).float(), torch.cat(deltas, 1).float()

    def normalised(self, images: Tensor, sizes: Tensor) -> Tensor:
        """(B, 3, H, W) blue, green, red minus their means; 0 where `sizes` (B, 2) say that there is padding."""
        x = images.flip(3).permute(0, 3, 1, 2).to(self.means.dtype) - self.means
        rows, columns = (torch.arange(x.shape[axis], device=x.device) for axis in (2, 3))
        x *= (rows < sizes[:, :1])[:, None, :, None]
        x *= (columns < sizes[:, 1:])[:, None, None, :]
        return x

    def pyramid(self, stages: list[Tensor]) -> list[Tensor]:
        """The stages' maps to the levels', the finest first."""
        inner = [getattr(self.fpn, f"inner{number}")(one) for number, one in enumerate(stages)]
        for number in reversed(range(self.layers.levels - 1)):
            inner[number] += F.interpolate(inner[number + 1], size=inner[number].shape[2:])
        return [getattr(self.fpn, f"layer{number}")(one) for number, one in enumerate(inner)]

    def boxes(self, maps: list[Tensor], box: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits (B, R, C + 1) and deltas (B, R, C + 1, 4) of regions."""
        x = pool(maps, self.layers.strides, box, level, self.layers.box_pool).flatten(1)
        for layer in (self.box.fc6, self.box.fc7):
            x = linear(x, layer.weight, layer.bias, relu=True)
        logits, deltas = self.box.cls_score(x), self.box.bbox_pred(x)
        return logits.view(*level.shape, -1).float(), deltas.view(*level.shape, -1, 4).float()

    def masks(self, maps: list[Tensor], box: Tensor, level: Tensor, label: Tensor) -> Tensor:
        """Mask logits (B, M, 28, 28) of regions, of their `label`'s class alone: the other 80 channels are never looked
        at."""
        x = pool(maps, self.layers.strides, box, level, self.layers.mask_pool)
        for number in range(len(self.layers.mask_convolutions)):
            x = F.relu(getattr(self.mask, f"conv{number}")(x), inplace=True)
        x, last = F.relu(self.mask.conv5_mask(x), inplace=True), self.mask.mask_fcn_logits
        classes = label.flatten().long()
        weight, bias = last.weight[classes].flatten(1)[:, None], last.bias[classes][:, None, None]
        return (torch.bmm(weight, x.flatten(2)).float() + bias.float()).view(*label.shape, *x.shape[2:])


def losses(outputs: Tensors, batch: Mapping[str, Tensor]) -> Tensors:
    """The five losses of a device's batch by name, from `Detector`'s outputs and a batch's sampled anchors; no axes."""
    anchor, is_object, weight = batch["anchor"].long(), batch["anchor_label"], batch["anchor_weight"]
    logits = outputs["objectness"].gather(1, anchor)
    deltas = outputs["rpn_delta"].gather(1, anchor[..., None].expand(-1, -1, 4))
    sampled, regions = _count(weight), _count(outputs["weight"])
    label, slots = outputs["label"].long(), outputs["mask"].shape[1]
    own = outputs["box_delta"].gather(2, label[..., None, None].expand(-1, -1, 1, 4))[:, :, 0]
    entropy = F.cross_entropy(outputs["logits"].flatten(0, 1), label.flatten(), reduction="none").view(label.shape)
    positive = (label[:, :slots] > 0).to(entropy.dtype)
    of_masks = F.binary_cross_entropy_with_logits(outputs["mask_logits"], outputs["mask"], reduction="none").mean(
        (2, 3)
    )
    rpn_box, box = _smooth_l1(deltas, batch["anchor_offset"], network.RPN_BETA), _smooth_l1(own, outputs["delta"], 1.0)
    return {
        "objectness": F.binary_cross_entropy_with_logits(logits, is_object, weight, reduction="sum") / sampled,
        "rpn_box": (rpn_box * is_object * weight).sum() / sampled,
        "class": (entropy * outputs["weight"]).sum() / regions,
        "box": (box * (label > 0)).sum() / regions,
        "mask": (of_masks * positive).sum() / _count(positive),
    }


def _count(weight: Tensor) -> Tensor:
    return weight.sum().clamp(min=1)


def _smooth_l1(given: Tensor, wanted: Tensor, beta: float) -> Tensor:
    """Sum (…,) over the four deltas (…, 4)."""
    return F.smooth_l1_loss(given, wanted, reduction="none", beta=beta).sum(-1)


class MaskRCNNTrainer(ImageTrainer):
    """Mask R-CNN on one device."""

    workload: MaskRCNN
    inputs = ("image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset")
    evaluation_inputs = ("image", "size")

    def __init__(self, workload: MaskRCNN, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.rules = workload.region_rules
        self.positives: on_gpu.Positives
        """Of the step that is computed."""
        self.arrays: Arrays = {}
        """Arrays of the batch that is computed; the host reads them between the network's halves."""
        self.anchors: dict[tuple[int, ...], list[Tensor]] = {}
        """Padded shape to the anchors of its levels on the device; on a CPU none."""

    def build(self) -> nn.Module:
        return Detector(self.workload.network)

    def tensors(self) -> Tensors:
        buffers, wanted = dict(self.model.named_buffers()), network.constants(self.workload.network)
        return {**super().tensors(), **{name: buffers[name] for name in wanted}}

    def device_arrays(self, batch: Batch, training: bool) -> Mapping[str, Tensor]:
        """Return the arrays on the device, and keep those that the host will read."""
        self.arrays = batch.arrays
        return super().device_arrays(batch, training)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the five losses of this device's batch, which are means, times its images.

        Every device has as many images, so the mean over the global batch is the mean over the devices.
        """
        return torch.stack(list(self.losses(model, batch).values())).sum() * len(batch["image"])

    def losses(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensors:
        """Return the five losses of this device's batch by name."""
        arrays = self.arrays
        decide = self.between(arrays, batch) if self.device.type == "cuda" else partial(self.learned, arrays)
        with self.autocast():
            outputs = model(batch["image"], batch["size"], partial(self.decided, decide))
        if "mask" not in outputs:
            outputs["mask"] = self.to_device(self.positives.masks(arrays, self.rules.mask_side))
        return losses(outputs, batch)

    def decided(self, decide: Between, objectness: Tensor, deltas: Tensor) -> Tensors:
        """`decide`'s regions; without masks' targets what these are made from begins its way to the host."""
        regions = decide(objectness, deltas)
        if "mask" not in regions:
            self.positives = on_gpu.Positives(regions)
        return regions

    def between(self, arrays: Arrays, on_device: Mapping[str, Tensor]) -> Between:
        """`learned` on the device; what it needs is on its way there before the network begins."""
        values = {name: arrays[name] for name in ("box", "label", *on_gpu.POLYGONS * on_gpu.draws_masks())}
        values["keys"] = on_gpu.keys(arrays["number"], int(arrays["epoch"][0]), self.settings.seed)
        batch = {name: self.to_device(value) for name, value in values.items()} | {"size": on_device["size"]}
        return partial(on_gpu.learned, anchors=self.anchors_on_device(arrays), batch=batch, rules=self.rules)

    def anchors_on_device(self, arrays: Arrays) -> list[Tensor]:
        """(A_l, 4) of each level, for a batch's padded images."""
        shape = arrays["image"].shape[1:3]
        if shape not in self.anchors:
            levels = anchors.level_anchors(self.settings.model, *shape)
            self.anchors[shape] = [self.to_device(level.copy()) for level in levels]
        return self.anchors[shape]

    def proposals(self, arrays: Arrays, objectness: Tensor, deltas: Tensor, training: bool) -> list[Proposals]:
        """Those of each image, on the host."""
        on_host = objectness.cpu().numpy(), deltas.cpu().numpy()
        return host.proposals(arrays, *on_host, self.settings.model, self.rules, suppress, training)

    def learned(self, arrays: Arrays, objectness: Tensor, deltas: Tensor) -> Tensors:
        """The regions that a batch learns, on the device: the fields of `Regions`."""
        proposed = self.proposals(arrays, objectness, deltas, training=True)
        made = host.sampled(proposed, arrays, self.settings.seed, self.rules)
        return {name: self.to_device(array) for name, array in made.items()}

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return `box` (B, D, 4), `score`, `label` (B, D), 0 without a detection, and `mask` (B, D, 28, 28) probabilities."""
        if self.device.type == "cuda" and kernels.usable():
            return self.outputs_on_device(model, batch)
        arrays = self.arrays
        maps, objectness, deltas = model.first_half(batch["image"], batch["size"])
        proposed = [one.box for one in self.proposals(arrays, objectness, deltas, training=False)]
        box = stacked(proposed)
        logits, deltas = model.boxes(maps, self.to_device(box), self.to_device(self.rules.level(box)))
        probabilities = logits.softmax(-1).cpu().numpy()
        detected = detect(proposed, probabilities, deltas.cpu().numpy(), arrays["size"], self.rules, suppress)
        slots = host.slots(detected.label > 0)
        some = (self.to_device(one[:, :slots]) for one in (detected.box, detected.level, detected.label))
        of_masks = model.masks(maps, *some).sigmoid()
        mask = of_masks.new_zeros((*detected.label.shape, *of_masks.shape[2:]))
        mask[:, :slots] = of_masks
        return {**{name: torch.from_numpy(getattr(detected, name)) for name in ("box", "score", "label")}, "mask": mask}

    def outputs_on_device(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensors:
        """Return `outputs` without decisions on the host; every image has as many masks as there may be detections."""
        size = batch["size"]
        maps, objectness, deltas = model.first_half(batch["image"], size)
        levels = self.anchors_on_device(self.arrays)
        box, _, there = on_gpu.propose(objectness, deltas, levels, size, self.rules, training=False)
        logits, deltas = model.boxes(maps, box, on_gpu.level(box, self.rules))
        detected = on_gpu.detect(box, there, logits.softmax(-1), deltas, size, self.rules)
        mask = model.masks(maps, detected["box"], detected.pop("level"), detected["label"]).sigmoid()
        return {**detected, "mask": mask}
