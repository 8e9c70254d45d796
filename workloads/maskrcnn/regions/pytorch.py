"""Proposals, sampled regions, and detections in PyTorch.

The GPU computes proposals, sampled regions, and detections, so that no feature map is copied to the
host.

Except for rounding, the tensors equal the results of the host functions (proposals.py, rois.py,
detections.py), which use the same hash. A selection has a fixed number of slots with weights. The
order of proposals with equal scores is undefined.

Without the suite's suppression kernel, the host waits for the device during suppression. Without
the suite's kernel for masks, the host computes the mask targets while the device computes the heads
(`Positives`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import nms

from workloads.api import Arrays
from workloads.common import randomness
from workloads.common.arrays import Float32s, Int64s
from workloads.frameworks.pytorch import kernels
from workloads.frameworks.pytorch.kernels.plain import hash_step
from workloads.maskrcnn import boxes as conventions
from workloads.maskrcnn.regions import host
from workloads.maskrcnn.regions.rois import KEY, OF_ANCHORS, OF_OBJECTS
from workloads.maskrcnn.regions.rules import (
    DETECTION_NMS_IOU,
    MATCH_IOU,
    PROPOSAL_NMS_IOU,
    ROUNDING,
    SCORE_MINIMUM,
    RegionRules,
)

Tensors = dict[str, Tensor]

POLYGONS = ("points", "polygon_ends", "object_ends")
"""Arrays of a batch from which mask targets are computed (input/data.py)."""
_LAST = torch.iinfo(torch.int64).max


def area(boxes: Tensor) -> Tensor:
    """Return the area (…,) of boxes (…, 4) in pixels."""
    return (boxes[..., 2] - boxes[..., 0] + 1) * (boxes[..., 3] - boxes[..., 1] + 1)


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the intersection over union (B, n, m) of boxes (B, n, 4) and (B, m, 4)."""
    low = torch.maximum(first[:, :, None, :2], second[:, None, :, :2])
    high = torch.minimum(first[:, :, None, 2:], second[:, None, :, 2:])
    width, height = (
        (high - low + 1).clamp(min=0).unbind(-1)
    )  # `clamp` and a product need no compilation. `prod` would be compiled at its first use.
    shared = width * height
    return shared / (area(first)[:, :, None] + area(second)[:, None] - shared)


def encode(boxes: Tensor, references: Tensor, weights: Sequence[float]) -> Tensor:
    """Return the deltas (…, 4) that transform `references` (…, 4) to `boxes` (…, 4)."""
    of_moves, of_sizes = _factors(weights)
    size, scales_with_devices = (
        corners[..., 2:] - corners[..., :2] + 1 for corners in (boxes, references)
    )
    moves = (
        boxes[..., :2] + size / 2 - references[..., :2] - scales_with_devices / 2
    ) / scales_with_devices
    return torch.cat([moves * of_moves, (size / scales_with_devices).log() * of_sizes], -1)


def decode(deltas: Tensor, references: Tensor, weights: Sequence[float]) -> Tensor:
    """Return boxes (…, 4) from deltas (…, 4) and references (…, 4).

    NaN deltas are replaced by 0.
    """
    of_moves, of_sizes = _factors(weights)
    moved = deltas.nan_to_num(0.0, 1e6, -1e6)
    scales_with_devices = references[..., 2:] - references[..., :2] + 1
    middle = (
        references[..., :2]
        + scales_with_devices / 2
        + moved[..., :2] / of_moves * scales_with_devices
    )
    half = (
        (moved[..., 2:] / of_sizes).clamp(max=conventions.MAX_SIZE_DELTA).exp()
        * scales_with_devices
        / 2
    )
    return torch.cat([middle - half, middle + half - 1], -1)


def _factors(weights: Sequence[float]) -> tuple[float, float]:
    """Return the weight of the x and y deltas, and the weight of the size deltas.

    The weights are Python numbers, because copying a tensor of weights to the host would wait for
    the device.
    """
    assert weights[0] == weights[1], "x and y share a weight"
    assert weights[2] == weights[3], "width and height share a weight"
    return weights[0], weights[2]


def kept(boxes: Tensor, scores: Tensor, most_iou: float) -> Tensor:
    """Return 1 for each box that non-maximum suppression keeps, else 0, (B, n).

    A box is kept if no better kept box overlaps it by more than `most_iou`. The boxes (B, n, 4)
    must be sorted, with the best box first. Without the suite's kernel, torchvision's kernel runs
    for each image separately, and the host waits for the device.
    """
    edges, keeps = torch.cat([boxes[..., :2], boxes[..., 2:] + 1], -1), torch.zeros_like(scores)
    if boxes.is_cuda and boxes.shape[1] <= kernels.MAX_BOXES and kernels.usable():
        return kernels.suppress(edges, most_iou)
    for keep, box, score in zip(keeps, edges, scores, strict=True):
        keep.index_fill_(0, nms(box, score, most_iou), 1)
    return keeps


def propose(
    objectness: Tensor,
    deltas: Tensor,
    anchors: Sequence[Tensor],
    sizes: Tensor,
    rules: RegionRules,
    training: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return boxes (B, K, 4), their anchors (B, K), and whether each slot is used (B, K).

    The arguments are the same as for `propose` in proposals.py. K is the number of decoded boxes,
    summed over pyramid levels. In evaluation, K is at most `rules.of_image`, and the slots are
    sorted by score, with the best proposal first.
    """
    before, after = (counts[0 if training else 1] for counts in (rules.before_nms, rules.after_nms))
    limits = edges(sizes, objectness)[:, None]
    scores, boxes, places, first = [], [], [], 0
    for of_level in anchors:
        score, best = objectness[:, first : first + len(of_level)].topk(
            min(before, len(of_level)), 1
        )
        moved = deltas.gather(1, (first + best)[..., None].expand(-1, -1, 4))
        box = torch.minimum(
            decode(moved, of_level[best], conventions.RPN_WEIGHTS).clamp(min=0), limits
        )
        keep = kept(box, score, PROPOSAL_NMS_IOU) * score.isfinite()
        keep *= keep.cumsum(1) <= after
        scores.append(torch.where(keep > 0, score, -torch.inf))
        boxes.append(box)
        places.append(first + best)
        first += len(of_level)
    score = torch.cat(scores, 1)
    if not training:
        score, chosen = score.topk(min(rules.of_image, score.shape[1]), 1)
        return (
            _rows(torch.cat(boxes, 1), chosen),
            torch.cat(places, 1).gather(1, chosen),
            score.isfinite(),
        )
    chosen = score.flatten().topk(min(rules.of_batch, score.numel())).indices
    is_best = (
        torch.zeros_like(score, dtype=torch.bool)
        .flatten()
        .scatter(0, chosen, True)
        .view(score.shape)
    )
    return torch.cat(boxes, 1), torch.cat(places, 1), is_best & score.isfinite()


def edges(sizes: Tensor, like: Tensor) -> Tensor:
    """Return the largest box coordinates (B, 4) within images of size `sizes` (B, 2).

    `sizes` contains heights and widths.
    """
    return (sizes.flip(1).repeat(1, 2) - 1).to(like.dtype)


def detect(
    proposals: Tensor,
    is_present: Tensor,
    probabilities: Tensor,
    deltas: Tensor,
    sizes: Tensor,
    rules: RegionRules,
) -> Tensors:
    """Return the fields of `detections.Detections` by name.

    The fields are `box` (B, D, 4), and `score`, `label`, `level` (B, D).

    The suppression of all images and classes runs in parallel. Each suppression processes all R
    regions of an image.

    Args:
        proposals: Boxes of the regions, (B, R, 4).
        is_present: Flags (B, R) of the slots that contain a proposal.
        probabilities: Class probabilities, (B, R, C + 1).
        deltas: Box deltas, (B, R, C + 1, 4).
        sizes: Height and width of each image, (B, 2).
        rules: Numbers and thresholds of detections.
    """
    images, regions, classes = len(proposals), proposals.shape[1], probabilities.shape[2] - 1
    moved = decode(deltas[:, :, 1:].transpose(1, 2), proposals[:, None], conventions.ROI_WEIGHTS)
    box = torch.minimum(moved.clamp(min=0), edges(sizes, moved)[:, None, None])
    score = probabilities[:, :, 1:].transpose(1, 2)
    score = torch.where((score > SCORE_MINIMUM) & is_present[:, None], score, -torch.inf)
    score, order = score.sort(stable=True, dim=2, descending=True)
    box = box.gather(2, order[..., None].expand(-1, -1, -1, 4)).flatten(0, 1)
    keep = kept(box, score.flatten(0, 1), DETECTION_NMS_IOU).view(score.shape)
    score = torch.where(keep > 0, score, -torch.inf).flatten(1)
    score, chosen = score.topk(min(rules.detections, classes * regions), 1)
    is_used = score.isfinite()
    box = torch.where(is_used[..., None], _rows(box.view(images, -1, 4), chosen), 0)
    label = torch.where(is_used, chosen // regions + 1, 0).to(torch.int32)
    return {
        "box": box,
        "score": torch.where(is_used, score, 0),
        "label": label,
        "level": level(box, rules),
    }


def sample(
    proposals: tuple[Tensor, Tensor, Tensor],
    box: Tensor,
    label: Tensor,
    keys: Tensor,
    rules: RegionRules,
) -> Tensors:
    """Return the fields of `rois.Regions` by name.

    Args:
        proposals: Result of `propose`.
        box: Boxes of the objects, (B, G, 4).
        label: Labels of the objects, (B, G). 0 marks an empty slot.
        keys: Result of the function `keys`, (B, 2).
        rules: Numbers and thresholds of regions.
    """
    proposed, anchor, is_used = proposals
    candidates, usable = torch.cat([proposed, box], 1), torch.cat([is_used, label > 0], 1)
    overlap, matched = (iou(candidates, box) * (label > 0)[:, None]).max(2)
    slots = torch.arange(label.shape[1], device=label.device).expand_as(label)
    hashes = torch.cat(
        [hash_step(keys[:, :1], anchor.long()), hash_step(keys[:, 1:], slots.long())], 1
    )
    random = (hashes >> 2) & ((1 << 62) - 1)
    positive = usable & (overlap >= MATCH_IOU)
    most = min(rules.positives, positive.shape[1])
    few = torch.where(positive, random, _LAST).topk(most, 1, largest=False)
    learned = torch.zeros_like(positive).scatter(1, few.indices, few.values < _LAST)
    # The sampled positive regions come first, followed by background regions. Positive regions and
    # background regions are each ordered by hash.
    order = torch.where(learned, random, torch.where(usable & ~positive, random | 1 << 62, _LAST))
    values, chosen = order.topk(min(rules.regions, order.shape[1]), 1, largest=False)
    weight = (values < _LAST).to(box.dtype)
    is_object, owner = learned.gather(1, chosen), matched.gather(1, chosen)
    regions = _rows(candidates, chosen) * weight[..., None]
    delta = encode(_rows(box, owner), regions, conventions.ROI_WEIGHTS)
    return {
        "box": regions,
        "level": level(regions, rules),
        "label": label.gather(1, owner) * is_object,
        "weight": weight,
        "delta": torch.where(is_object[..., None], delta, 0),
        "object": (owner * is_object)[:, : rules.positives],
    }


def _rows(boxes: Tensor, places: Tensor) -> Tensor:
    return boxes.gather(1, places[..., None].expand(-1, -1, 4))


def level(boxes: Tensor, rules: RegionRules) -> Tensor:
    """Return the pyramid level of each box, as `RegionRules.level` does."""
    ratio = area(boxes).sqrt() / rules.level_size + float(ROUNDING)
    return (
        ((ratio.log2() + rules.level_base).floor() - 2).clamp(0, rules.levels - 1).to(torch.int32)
    )


def keys(number: Int64s, epoch: int, seed: int) -> Int64s:
    """Return two hash keys (B, 2) per image: a key for anchors and a key for objects.

    The host computes the keys.
    """
    kinds = np.array([OF_ANCHORS, OF_OBJECTS])
    return randomness.bits(randomness.stream(seed, KEY, epoch), number[:, None], kinds).view(
        np.int64
    )


class Positives:
    """Asynchronous host copies of the regions for which the host computes mask targets."""

    def __init__(self, regions: Tensors) -> None:
        self.copies = [
            regions[name].to("cpu", non_blocking=True) for name in ("box", "label", "object")
        ]
        self.arrived = (
            torch.cuda.current_stream().record_event() if regions["box"].is_cuda else None
        )

    def masks(self, arrays: Arrays, side: int) -> Float32s:
        """Wait for the copies and return the mask targets (B, M, side, side).

        The function `host.mask_targets` computes the targets.
        """
        if self.arrived is not None:
            self.arrived.synchronize()
        box, label, owner = (copy.numpy() for copy in self.copies)
        return host.mask_targets(box, label, owner, arrays, side)


def learned(
    objectness: Tensor,
    deltas: Tensor,
    anchors: Sequence[Tensor],
    batch: Tensors,
    rules: RegionRules,
) -> Tensors:
    """Return the sampled regions that `Detector` pools, and their targets.

    `batch` contains `size`, `box`, and `label` of data.py, and the result of the function `keys`.
    If `batch` also contains `POLYGONS`, the returned dict includes `mask` (B, M, side, side), with
    the same mask targets as `host.mask_targets`.
    """
    proposals = propose(objectness, deltas, anchors, batch["size"], rules)
    regions = sample(proposals, batch["box"], batch["label"], batch["keys"], rules)
    if POLYGONS[0] in batch:
        polygons, objects = [batch[name] for name in POLYGONS], batch["box"].shape[1]
        regions["mask"] = kernels.draw_masks(
            regions["box"], regions["label"], regions["object"], objects, polygons, rules.mask_side
        )
    return regions


def draws_masks() -> bool:
    """Check whether the current device rasterizes masks exactly as COCO's tool does."""
    return kernels.usable() and _masks_agree()


@functools.cache
def _masks_agree() -> bool:
    return kernels.agree(_masks_differ)


def _masks_differ() -> Tensor:
    """Return whether device masks and host masks differ for 400 test regions.

    The test objects are ten stars with twelve corners each and two polygons per object.
    """
    turn = np.arange(12) * (np.pi / 6)
    rays = (3 + np.arange(120) * 37 % 50).reshape(10, 12, 1)
    points = (
        (rays * np.stack([np.cos(turn), np.sin(turn)], 1) + 40.25).astype(np.float32).reshape(-1, 2)
    )
    ends, objects = np.arange(12, 132, 12), np.arange(2, 12, 2)
    low = np.stack([np.arange(400) % 61, np.arange(400) % 47], 1) * 0.7
    boxes = np.concatenate([low, low + 1 + low[:, ::-1] * 1.3], 1).astype(np.float32)[None]
    labels, owners = np.ones((1, 400), np.int32), np.arange(400)[None] % 5
    arrays = {
        "points": points,
        "polygon_ends": ends,
        "object_ends": objects,
        "box": np.zeros((1, 5, 4)),
    }
    wanted = host.mask_targets(boxes, labels, owners, arrays, 28)
    inputs = [torch.from_numpy(array).cuda() for array in (boxes, labels, owners)]
    polygons = [torch.from_numpy(array).cuda() for array in (points, ends, objects)]
    drawn = kernels.draw_masks(inputs[0], inputs[1], inputs[2], 5, polygons, 28)
    return (drawn != torch.from_numpy(wanted).cuda()).any()
