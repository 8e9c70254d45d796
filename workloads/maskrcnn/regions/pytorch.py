"""What a batch learns and what it detects, decided on the device in PyTorch: for GPUs, so that no map is copied to the host.

Proposals, samples and detections are the host's (proposals.py, rois.py, detections.py) up to rounding: the hash is here too.
In place of selections there are fixed numbers with weights; of equal scores any may come first. Suppression waits for the
device where the kernel of ours does not run; there masks' targets are made on the host, while the device computes the heads
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
"""Arrays of a batch that masks are made from (input/data.py)."""
_LAST = torch.iinfo(torch.int64).max


def area(boxes: Tensor) -> Tensor:
    """Pixels (…,) of boxes (…, 4)."""
    return (boxes[..., 2] - boxes[..., 0] + 1) * (boxes[..., 3] - boxes[..., 1] + 1)


def iou(first: Tensor, second: Tensor) -> Tensor:
    """(B, n, m) of boxes (B, n, 4) and (B, m, 4)."""
    low = torch.maximum(first[:, :, None, :2], second[:, None, :, :2])
    high = torch.minimum(first[:, :, None, 2:], second[:, None, :, 2:])
    width, height = (high - low + 1).clamp(min=0).unbind(-1)  # `prod` would be compiled at its first use
    shared = width * height
    return shared / (area(first)[:, :, None] + area(second)[:, None] - shared)


def encode(boxes: Tensor, references: Tensor, weights: Sequence[float]) -> Tensor:
    """Deltas (…, 4) that turn references into boxes."""
    of_moves, of_sizes = _factors(weights)
    size, scales_with_devices = (one[..., 2:] - one[..., :2] + 1 for one in (boxes, references))
    moves = (boxes[..., :2] + size / 2 - references[..., :2] - scales_with_devices / 2) / scales_with_devices
    return torch.cat([moves * of_moves, (size / scales_with_devices).log() * of_sizes], -1)


def decode(deltas: Tensor, references: Tensor, weights: Sequence[float]) -> Tensor:
    """Boxes (…, 4) from references (…, 4); deltas that are no numbers become 0."""
    of_moves, of_sizes = _factors(weights)
    moved = deltas.nan_to_num(0.0, 1e6, -1e6)
    scales_with_devices = references[..., 2:] - references[..., :2] + 1
    middle = references[..., :2] + scales_with_devices / 2 + moved[..., :2] / of_moves * scales_with_devices
    half = (moved[..., 2:] / of_sizes).clamp(max=conventions.MAX_SIZE_DELTA).exp() * scales_with_devices / 2
    return torch.cat([middle - half, middle + half - 1], -1)


def _factors(weights: Sequence[float]) -> tuple[float, float]:
    """Of x and y, and of width and height: as numbers, since a tensor of weights would be a copy to wait for."""
    assert weights[0] == weights[1], "x and y share a weight"
    assert weights[2] == weights[3], "width and height share a weight"
    return weights[0], weights[2]


def kept(boxes: Tensor, scores: Tensor, most_iou: float) -> Tensor:
    """(B, n) 1 or 0: which boxes (B, n, 4), best first, no better kept one overlaps by more.

    Without a kernel of ours by torchvision's, for each image by itself, which waits.
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
    """Boxes (B, K, 4), anchors (B, K) and whether each is a proposal (B, K).

    Arguments as `proposals.propose` has them; K is the sum over levels of what is decoded, in evaluation at most
    `rules.of_image`, best first.
    """
    before, after = (counts[0 if training else 1] for counts in (rules.before_nms, rules.after_nms))
    limits = edges(sizes, objectness)[:, None]
    scores, boxes, places, first = [], [], [], 0
    for of_level in anchors:
        score, best = objectness[:, first : first + len(of_level)].topk(min(before, len(of_level)), 1)
        moved = deltas.gather(1, (first + best)[..., None].expand(-1, -1, 4))
        box = torch.minimum(decode(moved, of_level[best], conventions.RPN_WEIGHTS).clamp(min=0), limits)
        keep = kept(box, score, PROPOSAL_NMS_IOU) * score.isfinite()
        keep *= keep.cumsum(1) <= after
        scores.append(torch.where(keep > 0, score, -torch.inf))
        boxes.append(box)
        places.append(first + best)
        first += len(of_level)
    score = torch.cat(scores, 1)
    if not training:
        score, chosen = score.topk(min(rules.of_image, score.shape[1]), 1)
        return _rows(torch.cat(boxes, 1), chosen), torch.cat(places, 1).gather(1, chosen), score.isfinite()
    chosen = score.flatten().topk(min(rules.of_batch, score.numel())).indices
    is_best = torch.zeros_like(score, dtype=torch.bool).flatten().scatter(0, chosen, True).view(score.shape)
    return torch.cat(boxes, 1), torch.cat(places, 1), is_best & score.isfinite()


def edges(sizes: Tensor, like: Tensor) -> Tensor:
    """(B, 4) the largest coordinates of boxes within images of `sizes` (B, 2), height and width."""
    return (sizes.flip(1).repeat(1, 2) - 1).to(like.dtype)


def detect(
    proposals: Tensor, there: Tensor, probabilities: Tensor, deltas: Tensor, sizes: Tensor, rules: RegionRules
) -> Tensors:
    """The fields of `detections.Detections`: `box` (B, D, 4), `score`, `label`, `level` (B, D).

    `proposals` (B, R, 4) of which some are `there` (B, R), `probabilities` (B, R, C + 1), `deltas` (B, R, C + 1, 4). Images
    and classes are suppressed side by side, each class over all R regions.
    """
    images, regions, classes = len(proposals), proposals.shape[1], probabilities.shape[2] - 1
    moved = decode(deltas[:, :, 1:].transpose(1, 2), proposals[:, None], conventions.ROI_WEIGHTS)
    box = torch.minimum(moved.clamp(min=0), edges(sizes, moved)[:, None, None])
    score = probabilities[:, :, 1:].transpose(1, 2)
    score = torch.where((score > SCORE_MINIMUM) & there[:, None], score, -torch.inf)
    score, order = score.sort(stable=True, dim=2, descending=True)
    box = box.gather(2, order[..., None].expand(-1, -1, -1, 4)).flatten(0, 1)
    keep = kept(box, score.flatten(0, 1), DETECTION_NMS_IOU).view(score.shape)
    score = torch.where(keep > 0, score, -torch.inf).flatten(1)
    score, chosen = score.topk(min(rules.detections, classes * regions), 1)
    found = score.isfinite()
    box = torch.where(found[..., None], _rows(box.view(images, -1, 4), chosen), 0)
    label = torch.where(found, chosen // regions + 1, 0).to(torch.int32)
    return {"box": box, "score": torch.where(found, score, 0), "label": label, "level": level(box, rules)}


def sample(
    proposals: tuple[Tensor, Tensor, Tensor], box: Tensor, label: Tensor, keys: Tensor, rules: RegionRules
) -> Tensors:
    """`rois.Regions` as tensors by name, from `propose`, objects (B, G, 4) with `label` (B, G), and `keys` (B, 2)."""
    proposed, anchor, there = proposals
    candidates, usable = torch.cat([proposed, box], 1), torch.cat([there, label > 0], 1)
    overlap, matched = (iou(candidates, box) * (label > 0)[:, None]).max(2)
    slots = torch.arange(label.shape[1], device=label.device).expand_as(label)
    hashes = torch.cat([hash_step(keys[:, :1], anchor.long()), hash_step(keys[:, 1:], slots.long())], 1)
    random = (hashes >> 2) & ((1 << 62) - 1)
    positive = usable & (overlap >= MATCH_IOU)
    most = min(rules.positives, positive.shape[1])
    few = torch.where(positive, random, _LAST).topk(most, 1, largest=False)
    learned = torch.zeros_like(positive).scatter(1, few.indices, few.values < _LAST)
    # Positives that are learned come first, then background: all by hash.
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
    """As `RegionRules.level`."""
    ratio = area(boxes).sqrt() / rules.level_size + float(ROUNDING)
    return ((ratio.log2() + rules.level_base).floor() - 2).clamp(0, rules.levels - 1).to(torch.int32)


def keys(number: Int64s, epoch: int, seed: int) -> Int64s:
    """(B, 2) what hashes of an image's anchors and of its objects begin with, made on the host."""
    kinds = np.array([OF_ANCHORS, OF_OBJECTS])
    return randomness.bits(randomness.stream(seed, KEY, epoch), number[:, None], kinds).view(np.int64)


class Positives:
    """Copies of what mask targets are made from, on their way to the host."""

    def __init__(self, regions: Tensors) -> None:
        self.copies = [regions[name].to("cpu", non_blocking=True) for name in ("box", "label", "object")]
        self.arrived = torch.cuda.current_stream().record_event() if regions["box"].is_cuda else None

    def masks(self, arrays: Arrays, side: int) -> Float32s:
        """(B, M, side, side) as `host.mask_targets` makes them, once the copies are there."""
        if self.arrived is not None:
            self.arrived.synchronize()
        box, label, owner = (one.numpy() for one in self.copies)
        return host.mask_targets(box, label, owner, arrays, side)


def learned(
    objectness: Tensor, deltas: Tensor, anchors: Sequence[Tensor], batch: Tensors, rules: RegionRules
) -> Tensors:
    """What `Detector` pools and what is learned of it.

    `batch`: `size`, `box`, `label` as data.py has them, `keys` as made above; with POLYGONS there `mask` is made too, (B, M,
    side, side) as `host.mask_targets` makes it.
    """
    proposals = propose(objectness, deltas, anchors, batch["size"], rules)
    found = sample(proposals, batch["box"], batch["label"], batch["keys"], rules)
    if POLYGONS[0] in batch:
        polygons, objects = [batch[name] for name in POLYGONS], batch["box"].shape[1]
        found["mask"] = kernels.draw_masks(
            found["box"], found["label"], found["object"], objects, polygons, rules.mask_side
        )
    return found


def draws_masks() -> bool:
    """Whether masks are drawn on the present device, as COCO's tool draws them."""
    return kernels.usable() and _masks_agree()


@functools.cache
def _masks_agree() -> bool:
    return kernels.agree(_masks_differ)


def _masks_differ() -> Tensor:
    """Of 400 regions of ten stars with twelve corners each, two polygons to an object."""
    turn = np.arange(12) * (np.pi / 6)
    rays = (3 + np.arange(120) * 37 % 50).reshape(10, 12, 1)
    points = (rays * np.stack([np.cos(turn), np.sin(turn)], 1) + 40.25).astype(np.float32).reshape(-1, 2)
    ends, objects = np.arange(12, 132, 12), np.arange(2, 12, 2)
    low = np.stack([np.arange(400) % 61, np.arange(400) % 47], 1) * 0.7
    boxes = np.concatenate([low, low + 1 + low[:, ::-1] * 1.3], 1).astype(np.float32)[None]
    labels, owners = np.ones((1, 400), np.int32), np.arange(400)[None] % 5
    arrays = {"points": points, "polygon_ends": ends, "object_ends": objects, "box": np.zeros((1, 5, 4))}
    wanted = host.mask_targets(boxes, labels, owners, arrays, 28)
    made = [torch.from_numpy(one).cuda() for one in (boxes, labels, owners)]
    polygons = [torch.from_numpy(one).cuda() for one in (points, ends, objects)]
    drawn = kernels.draw_masks(made[0], made[1], made[2], 5, polygons, 28)
    return (drawn != torch.from_numpy(wanted).cuda()).any()
