"""Mask R-CNN in PyTorch, in channels-last layout.

The shapes use these symbols: B images of a replica, padded to H × W pixels, C classes without
background, A anchors, S sampled anchors, R regions of an image, M of which may be positive, D
detections. data.py describes batches, and network.py describes parameter names.

In all frameworks, a training step has three phases:

- Phase A: The device converts images uint8 (B, H, W, 3) from RGB to BGR float minus the means, and
  sets the padding beyond `size` to 0. Stem, stages, pyramid, and RPN on all levels then return
  logits (B, A) and deltas (B, A, 4). Anchors are ordered by level, starting with the finest level,
  then by cell row by row, then by anchor of the cell.
- Phase B: The host selects the regions from the RPN's outputs. Gradients do not propagate through
  boxes. The host calls `regions.proposals.propose`, and in training `regions.rois.sample` and
  `masks.targets`. Only as many positive slots as the batch needs are kept, rounded up
  (regions/host.py). On a GPU, the device selects the regions with all slots (regions/pytorch.py).
  The device also computes the mask targets if the kernel for mask targets is available.
- Phase C: The device pools the regions to 7×7. The box head returns class logits (B, R, C + 1) and
  deltas (B, R, C + 1, 4). In training, the positive slots, which come first, are pooled to 14×14.
  The mask head returns the logits of each slot's class (B, M, 28, 28).

The losses are computed in fp32. Each loss is divided by the number of its terms on *this device*,
which is at least 1:

* binary cross-entropy and smooth L1 (β = 1/9) of RPN over the sampled anchors
* cross-entropy and smooth L1 (β = 1, only of the positives' classes) over the sampled regions
* binary cross-entropy over the positives, as the mean over a mask's pixels

The share of a replica is the sum of the losses divided by the number of devices, because the
reference averages over devices. All heads and losses are computed in every step, with weights of 0
or 1. If an image has no positive regions, the mask head still has gradients, which are 0.

Evaluation runs phase A, `propose`, the box head, softmax, `regions.detections.detect`, the mask
head on the detections, and the sigmoid of each detection's class. A GPU runs the whole evaluation
on the device if the suppression kernel is available. Without the suppression kernel, the host runs
phase B.
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
"""Function that selects the regions between the two halves of the network.

The function maps RPN's logits (B, A) and deltas (B, A, 4) to `box` (B, R, 4) and `level` (B, R). In
training, the function also returns the targets of the regions.
"""

_live: Norm = partial(
    BatchNorm, eps=network.BATCH_NORM_EPSILON, momentum=network.BATCH_NORM_MOMENTUM
)


class Part(nn.Module):
    """Module that consists of several layers.

    Each layer is registered under the second component of its dotted name.
    """

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
    """Mask R-CNN network.

    A single forward pass maps uint8 images to RPN outputs, and regions to the outputs of the heads.
    """

    def __init__(self, layers: network.Network) -> None:
        super().__init__(layers.stem, layers.blocks, FrozenNorm if layers.frozen else _live)
        self.layers = layers
        self.fpn, self.rpn = Part([*layers.inner, *layers.outer]), Part([*layers.rpn])
        self.box = Part([*layers.box])
        self.mask = Part([*layers.mask_convolutions, layers.mask_up, layers.mask_logits])
        self.register_buffer(
            "means", torch.tensor(network.BGR_MEANS).view(1, 3, 1, 1), persistent=False
        )

    def forward(self, images: Tensor, sizes: Tensor, between: Between) -> Tensors:
        """Return the tensors from which the losses are computed.

        The dict contains the tensors of `between`, and `objectness`, `rpn_delta`, `logits`,
        `box_delta`, and `mask_logits`.

        The dict contains mask targets only if `between` returns mask targets.
        """
        maps, objectness, deltas = self.first_half(images, sizes)
        regions = between(objectness.detach(), deltas.detach())
        logits, box_deltas = self.boxes(maps, regions["box"], regions["level"])
        slots = regions["object"].shape[1]
        label = regions["label"][:, :slots]
        of_masks = self.masks(maps, regions["box"][:, :slots], regions["level"][:, :slots], label)
        predicted = {
            "objectness": objectness,
            "rpn_delta": deltas,
            "logits": logits,
            "box_delta": box_deltas,
        }
        return {**regions, **predicted, "mask_logits": of_masks}

    def first_half(self, images: Tensor, sizes: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """Return the pyramid's feature maps, RPN's logits (B, A), and RPN's deltas (B, A, 4).

        The images have the shape (B, H, W, 3).

        `sizes` (B, 2) contains the heights and widths of the images without padding.
        """
        maps = self.pyramid(self.stage_maps(self.normalised(images, sizes)))
        objectness, deltas = [], []
        for level_map in (*maps, F.max_pool2d(maps[-1], 1, 2)):
            hidden = F.relu(self.rpn.conv(level_map), inplace=True)
            objectness.append(self.rpn.cls_logits(hidden).permute(0, 2, 3, 1).flatten(1))
            deltas.append(
                self.rpn.bbox_pred(hidden).permute(0, 2, 3, 1).reshape(len(level_map), -1, 4)
            )
        return maps, torch.cat(objectness, 1).float(), torch.cat(deltas, 1).float()

    def normalised(self, images: Tensor, sizes: Tensor) -> Tensor:
        """Return blue, green, and red minus their means, (B, 3, H, W).

        Pixels beyond the image sizes `sizes` (B, 2) are padding and become 0.
        """
        x = images.flip(3).permute(0, 3, 1, 2).to(self.means.dtype) - self.means
        rows, columns = (torch.arange(x.shape[axis], device=x.device) for axis in (2, 3))
        x *= (rows < sizes[:, :1])[:, None, :, None]
        x *= (columns < sizes[:, 1:])[:, None, None, :]
        return x

    def pyramid(self, stages: list[Tensor]) -> list[Tensor]:
        """Return the feature maps of the pyramid's levels, with the finest map first.

        `stages` contains the output feature maps of the trunk's stages.
        """
        inner = [getattr(self.fpn, f"inner{number}")(stage) for number, stage in enumerate(stages)]
        for number in reversed(range(self.layers.levels - 1)):
            inner[number] += F.interpolate(inner[number + 1], size=inner[number].shape[2:])
        return [
            getattr(self.fpn, f"layer{number}")(lateral) for number, lateral in enumerate(inner)
        ]

    def boxes(self, maps: list[Tensor], box: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """Return class logits (B, R, C + 1) and deltas (B, R, C + 1, 4) of regions."""
        x = pool(maps, self.layers.strides, box, level, self.layers.box_pool).flatten(1)
        for layer in (self.box.fc6, self.box.fc7):
            x = linear(x, layer.weight, layer.bias, relu=True)
        logits, deltas = self.box.cls_score(x), self.box.bbox_pred(x)
        return logits.view(*level.shape, -1).float(), deltas.view(*level.shape, -1, 4).float()

    def masks(self, maps: list[Tensor], box: Tensor, level: Tensor, label: Tensor) -> Tensor:
        """Return the mask logits (B, M, 28, 28) of regions.

        The logits are computed only for the class `label` of each region.

        The channels of all other classes are not computed.
        """
        x = pool(maps, self.layers.strides, box, level, self.layers.mask_pool)
        for number in range(len(self.layers.mask_convolutions)):
            x = F.relu(getattr(self.mask, f"conv{number}")(x), inplace=True)
        x, last = F.relu(self.mask.conv5_mask(x), inplace=True), self.mask.mask_fcn_logits
        classes = label.flatten().long()
        weight, bias = last.weight[classes].flatten(1)[:, None], last.bias[classes][:, None, None]
        return (torch.bmm(weight, x.flatten(2)).float() + bias.float()).view(
            *label.shape, *x.shape[2:]
        )


def losses(outputs: Tensors, batch: Mapping[str, Tensor]) -> Tensors:
    """Return the five losses of a device's batch by name, each a scalar.

    `outputs` contains the tensors of `Detector.forward` and `mask`. `batch` contains the sampled
    anchors.
    """
    anchor, is_object, weight = (
        batch["anchor"].long(),
        batch["anchor_label"],
        batch["anchor_weight"],
    )
    logits = outputs["objectness"].gather(1, anchor)
    deltas = outputs["rpn_delta"].gather(1, anchor[..., None].expand(-1, -1, 4))
    sampled, regions = _count(weight), _count(outputs["weight"])
    label, slots = outputs["label"].long(), outputs["mask"].shape[1]
    of_label = outputs["box_delta"].gather(2, label[..., None, None].expand(-1, -1, 1, 4))[:, :, 0]
    entropy = F.cross_entropy(
        outputs["logits"].flatten(0, 1), label.flatten(), reduction="none"
    ).view(label.shape)
    positive = (label[:, :slots] > 0).to(entropy.dtype)
    of_masks = F.binary_cross_entropy_with_logits(
        outputs["mask_logits"], outputs["mask"], reduction="none"
    ).mean((2, 3))
    rpn_box, box = (
        _smooth_l1(deltas, batch["anchor_offset"], network.RPN_BETA),
        _smooth_l1(of_label, outputs["delta"], 1.0),
    )
    return {
        "objectness": F.binary_cross_entropy_with_logits(logits, is_object, weight, reduction="sum")
        / sampled,
        "rpn_box": (rpn_box * is_object * weight).sum() / sampled,
        "class": (entropy * outputs["weight"]).sum() / regions,
        "box": (box * (label > 0)).sum() / regions,
        "mask": (of_masks * positive).sum() / _count(positive),
    }


def _count(weight: Tensor) -> Tensor:
    return weight.sum().clamp(min=1)


def _smooth_l1(predicted: Tensor, wanted: Tensor, beta: float) -> Tensor:
    """Return the smooth L1 loss (…,), summed over the four deltas (…, 4)."""
    return F.smooth_l1_loss(predicted, wanted, reduction="none", beta=beta).sum(-1)


class MaskRCNNTrainer(ImageTrainer):
    """Mask R-CNN trainer for one device."""

    workload: MaskRCNN
    inputs = ("image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset")
    evaluation_inputs = ("image", "size")

    def __init__(self, workload: MaskRCNN, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.rules = workload.region_rules
        self.positives: on_gpu.Positives
        """Host copies of the regions of the current step. The host computes the mask targets from
        these copies.
        """
        self.arrays: Arrays = {}
        """Host arrays of the current batch, which the host reads between the halves of the
        network.
        """
        self.anchors: dict[tuple[int, ...], list[Tensor]] = {}
        """Anchors of each level on the device, by padded image shape. The dictionary is empty on a
        CPU.
        """

    def build(self) -> nn.Module:
        return Detector(self.workload.network)

    def tensors(self) -> Tensors:
        buffers, wanted = dict(self.model.named_buffers()), network.constants(self.workload.network)
        return {**super().tensors(), **{name: buffers[name] for name in wanted}}

    def device_arrays(self, batch: Batch, training: bool) -> Mapping[str, Tensor]:
        """Return the batch arrays on the device.

        The method also stores the host arrays that the host reads between the halves of the
        network.
        """
        self.arrays = batch.arrays
        return super().device_arrays(batch, training)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of the five losses of this device's batch.

        The losses are means over the batch, multiplied by the number of images.

        All devices have the same number of images. The mean over the global batch is therefore the
        mean of the devices' means.
        """
        return torch.stack(list(self.losses(model, batch).values())).sum() * len(batch["image"])

    def losses(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensors:
        """Return the five losses of this device's batch by name."""
        arrays = self.arrays
        decide = (
            self.between(arrays, batch)
            if self.device.type == "cuda"
            else partial(self.learned, arrays)
        )
        with self.autocast():
            outputs = model(batch["image"], batch["size"], partial(self.decided, decide))
        if "mask" not in outputs:
            outputs["mask"] = self.to_device(self.positives.masks(arrays, self.rules.mask_side))
        return losses(outputs, batch)

    def decided(self, decide: Between, objectness: Tensor, deltas: Tensor) -> Tensors:
        """Return the regions that `decide` selects.

        If `decide` returns no mask targets, the method starts copying the regions to the host,
        which then computes the mask targets.
        """
        regions = decide(objectness, deltas)
        if "mask" not in regions:
            self.positives = on_gpu.Positives(regions)
        return regions

    def between(self, arrays: Arrays, on_device: Mapping[str, Tensor]) -> Between:
        """Return a function that selects and samples the regions on the device.

        The inputs of the function are copied to the device before the network runs.
        """
        values = {
            name: arrays[name] for name in ("box", "label", *on_gpu.POLYGONS * on_gpu.draws_masks())
        }
        values["keys"] = on_gpu.keys(arrays["number"], int(arrays["epoch"][0]), self.settings.seed)
        batch = {name: self.to_device(value) for name, value in values.items()} | {
            "size": on_device["size"]
        }
        return partial(
            on_gpu.learned, anchors=self.anchors_on_device(arrays), batch=batch, rules=self.rules
        )

    def anchors_on_device(self, arrays: Arrays) -> list[Tensor]:
        """Return the anchors (A_l, 4) of each level for the batch's padded images."""
        shape = arrays["image"].shape[1:3]
        if shape not in self.anchors:
            levels = anchors.level_anchors(self.settings.model, *shape)
            self.anchors[shape] = [self.to_device(level.copy()) for level in levels]
        return self.anchors[shape]

    def proposals(
        self, arrays: Arrays, objectness: Tensor, deltas: Tensor, training: bool
    ) -> list[Proposals]:
        """Return the proposals of each image, computed on the host."""
        on_host = objectness.cpu().numpy(), deltas.cpu().numpy()
        return host.proposals(arrays, *on_host, self.settings.model, self.rules, suppress, training)

    def learned(self, arrays: Arrays, objectness: Tensor, deltas: Tensor) -> Tensors:
        """Return the fields of `Regions` for the sampled regions of a batch.

        The fields are tensors on the device of the trainer.
        """
        proposed = self.proposals(arrays, objectness, deltas, training=True)
        sampled = host.sampled(proposed, arrays, self.settings.seed, self.rules)
        return {name: self.to_device(array) for name, array in sampled.items()}

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the detections of a batch.

        The tensors are `box` (B, D, 4), `score` and `label` (B, D), and `mask` probabilities (B, D,
        28, 28).

        Slots without a detection are 0.
        """
        if self.device.type == "cuda" and kernels.usable():
            return self.outputs_on_device(model, batch)
        arrays = self.arrays
        maps, objectness, deltas = model.first_half(batch["image"], batch["size"])
        proposed = [
            proposals.box
            for proposals in self.proposals(arrays, objectness, deltas, training=False)
        ]
        box = stacked(proposed)
        logits, deltas = model.boxes(
            maps, self.to_device(box), self.to_device(self.rules.level(box))
        )
        probabilities = logits.softmax(-1).cpu().numpy()
        detected = detect(
            proposed, probabilities, deltas.cpu().numpy(), arrays["size"], self.rules, suppress
        )
        slots = host.slots(detected.label > 0)
        some = (
            self.to_device(array[:, :slots])
            for array in (detected.box, detected.level, detected.label)
        )
        of_masks = model.masks(maps, *some).sigmoid()
        mask = of_masks.new_zeros((*detected.label.shape, *of_masks.shape[2:]))
        mask[:, :slots] = of_masks
        return {
            **{
                name: torch.from_numpy(getattr(detected, name))
                for name in ("box", "score", "label")
            },
            "mask": mask,
        }

    def outputs_on_device(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensors:
        """Return the detections of a batch, with the regions selected on the device.

        The detections are the same as those of `outputs`. Masks are computed for all D slots of
        every image.
        """
        size = batch["size"]
        maps, objectness, deltas = model.first_half(batch["image"], size)
        levels = self.anchors_on_device(self.arrays)
        box, _, is_used = on_gpu.propose(
            objectness, deltas, levels, size, self.rules, training=False
        )
        logits, deltas = model.boxes(maps, box, on_gpu.level(box, self.rules))
        detected = on_gpu.detect(box, is_used, logits.softmax(-1), deltas, size, self.rules)
        mask = model.masks(
            maps, detected["box"], detected.pop("level"), detected["label"]
        ).sigmoid()
        return {**detected, "mask": mask}
