"""Proposals, sampled regions, and detections in JAX.

The device computes proposals, sampled regions, and detections in arrays of fixed size.

Except for rounding, the arrays equal the results of the host functions (proposals.py, rois.py,
detections.py). A selection has a fixed number of slots, and an array marks the used slots.

The shapes use these symbols: B images of a replica, A anchors, K proposals, R regions, D
detections, C classes without background, G slots for objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from workloads.common.arrays import Float32s
from workloads.frameworks.jax.optimizers import Values
from workloads.maskrcnn import boxes
from workloads.maskrcnn.regions.rules import (
    DETECTION_NMS_IOU,
    MATCH_IOU,
    PROPOSAL_NMS_IOU,
    SCORE_MINIMUM,
    RegionRules,
)

NONE = -jnp.inf
"""Score of an unused slot."""


class Proposals(NamedTuple):
    """Proposals of a batch in K slots per image. Some slots may be unused.

    In evaluation, the slots are sorted by score, with the best proposal first.
    """

    box: jax.Array
    """Boxes (B, K, 4) of the proposals."""
    anchor: jax.Array
    """Index (B, K) of the anchor from which each box was decoded. The anchors of all levels are
    numbered consecutively.
    """
    is_present: jax.Array
    """Flags (B, K) of the slots that contain a proposal."""


def kept(box: jax.Array, is_present: jax.Array, most_iou: float) -> jax.Array:
    """Return whether non-maximum suppression keeps each box, (N, n).

    A box is kept if no better kept box overlaps it by more than `most_iou`. The number of rounds is
    the number of boxes in the longest of the N lists.

    Args:
        box: Boxes (N, n, 4), with the best box first. Unused slots come last.
        is_present: Flags (N, n) of the slots that contain a box.
        most_iou: Maximum overlap of two kept boxes.
    """
    places = jnp.arange(box.shape[1])

    def suppress(place: jax.Array, keep: jax.Array) -> jax.Array:
        current = jax.lax.dynamic_slice_in_dim(box, place, 1, 1)
        overlapped = (boxes.iou(current, box)[:, 0] > most_iou) & (places > place)
        return keep & ~(overlapped & jax.lax.dynamic_slice_in_dim(keep, place, 1, 1))

    whole: jax.Array = jax.lax.fori_loop(0, is_present.sum(1).max(), suppress, is_present)
    return whole


def propose(
    objectness: jax.Array,
    deltas: jax.Array,
    anchors: Sequence[Float32s],
    sizes: jax.Array,
    rules: RegionRules,
    training: bool,
) -> Proposals:
    """Return the proposals of each image.

    The arguments are the same as for `propose` in proposals.py. K is the number of decoded boxes,
    summed over pyramid levels. In evaluation, K is at most `rules.of_image`.
    """
    before, after = (counts[0 if training else 1] for counts in (rules.before_nms, rules.after_nms))
    scores, boxes_of, places, first = [], [], [], 0
    for of_level in anchors:
        ranked = jnp.nan_to_num(
            objectness[:, first : first + len(of_level)], nan=NONE, posinf=NONE, neginf=NONE
        )
        score, best = jax.lax.top_k(ranked, min(before, len(of_level)))
        decoded = boxes.decode(
            _rows(deltas, first + best), jnp.asarray(of_level)[best], boxes.RPN_WEIGHTS
        )
        box = _inside(decoded, sizes[:, None])
        keep = kept(box, score > NONE, PROPOSAL_NMS_IOU)
        scores.append(jnp.where(keep & (keep.cumsum(1) <= after), score, NONE))
        boxes_of.append(box)
        places.append(first + best)
        first += len(of_level)
    score, box, anchor = (jnp.concatenate(parts, 1) for parts in (scores, boxes_of, places))
    if not training:
        score, chosen = jax.lax.top_k(score, min(rules.of_image, score.shape[1]))
        return Proposals(_rows(box, chosen), jnp.take_along_axis(anchor, chosen, 1), score > NONE)
    flat = score.ravel()  # The array contains the scores of all images.
    _, chosen = jax.lax.top_k(flat, min(rules.of_batch, flat.size))
    is_best = jnp.zeros(flat.shape, bool).at[chosen].set(True).reshape(score.shape)
    return Proposals(box, anchor, is_best & (score > NONE))


def sample(proposed: Proposals, batch: Values, rules: RegionRules) -> Values:
    """Return the fields of `rois.Regions` by name.

    Args:
        proposed: Proposals of the batch.
        batch: Arrays `box` (B, G, 4) and `label` (B, G) of the objects, `anchor_hash` (B, A, 2),
            and `object_hash` (B, G, 2). Each hash consists of two 32-bit words, with the lower word
            first.
        rules: Numbers and thresholds of regions.
    """
    box, label = batch["box"], batch["label"]
    candidates = jnp.concatenate([proposed.box, box], 1)
    is_used = jnp.concatenate([proposed.is_present, label > 0], 1)
    overlap = jnp.where(label[:, None] > 0, boxes.iou(candidates, box), 0)
    matched, positive = overlap.argmax(2), is_used & (overlap.max(2) >= MATCH_IOU)
    hashes = jnp.concatenate(
        [_rows(batch["anchor_hash"], proposed.anchor), batch["object_hash"]], 1
    )
    places = jnp.broadcast_to(jnp.arange(is_used.shape[1]), is_used.shape)
    kind = jnp.where(positive, 0, jnp.where(is_used, 1, 2))
    *_, order = jax.lax.sort(
        (kind, hashes[..., 1], hashes[..., 0], places), dimension=1, num_keys=3
    )
    # The sampled positive regions come first, followed by background regions.
    slot, count = jnp.arange(rules.regions), positive.sum(1, keepdims=True)
    learned = jnp.minimum(count, rules.positives)
    rank = jnp.where(slot < learned, slot, slot - learned + count)
    weight = (rank < is_used.sum(1, keepdims=True)).astype(jnp.float32)
    chosen = jnp.take_along_axis(order, jnp.minimum(rank, is_used.shape[1] - 1), 1)
    is_object, owner = slot < learned, jnp.take_along_axis(matched, chosen, 1)
    regions = _rows(candidates, chosen) * weight[..., None]
    delta = boxes.encode(_rows(box, owner), regions, boxes.ROI_WEIGHTS)
    return {
        "box": regions,
        "level": rules.level(regions),
        "label": jnp.where(is_object, jnp.take_along_axis(label, owner, 1), 0),
        "weight": weight,
        "delta": jnp.where(is_object[..., None], delta, 0),
        "object": jnp.where(is_object, owner, 0)[:, : rules.positives],
    }


def detect(
    proposed: Proposals,
    probabilities: jax.Array,
    deltas: jax.Array,
    sizes: jax.Array,
    rules: RegionRules,
) -> Values:
    """Return the fields of `detections.Detections` by name.

    The fields are `box` (B, D, 4), and `score`, `label`, `level` (B, D).

    The suppression of all images and classes runs in parallel. Each suppression processes all
    regions of an image.

    Args:
        proposed: Proposals of the batch. Each proposal is a region.
        probabilities: Class probabilities (B, R, C + 1).
        deltas: Box deltas (B, R, C + 1, 4).
        sizes: Height and width of each image, (B, 2).
        rules: Numbers and thresholds of detections.
    """
    images, regions, classes = len(sizes), deltas.shape[1], deltas.shape[2] - 1
    moved = boxes.decode(deltas[:, :, 1:].swapaxes(1, 2), proposed.box[:, None], boxes.ROI_WEIGHTS)
    score = probabilities[:, :, 1:].swapaxes(1, 2)
    score = jnp.where((score > SCORE_MINIMUM) & proposed.is_present[:, None], score, NONE)
    order = jnp.argsort(score, 2, stable=True, descending=True)
    score = jnp.take_along_axis(score, order, 2).reshape(-1, regions)
    box = jnp.take_along_axis(_inside(moved, sizes[:, None, None]), order[..., None], 2).reshape(
        -1, regions, 4
    )
    score = jnp.where(kept(box, score > NONE, DETECTION_NMS_IOU), score, NONE).reshape(images, -1)
    score, chosen = jax.lax.top_k(score, min(rules.detections, classes * regions))
    is_used = score > NONE
    best = jnp.where(is_used[..., None], _rows(box.reshape(images, -1, 4), chosen), 0)
    label = jnp.where(is_used, chosen // regions + 1, 0)
    return {
        "box": best,
        "score": jnp.where(is_used, score, 0),
        "label": label,
        "level": rules.level(best),
    }


def _rows(array: jax.Array, places: jax.Array) -> jax.Array:
    """Return the rows (B, n, m) of an array (B, N, m) at `places` (B, n)."""
    return jnp.take_along_axis(array, places[..., None], 1)


def _inside(box: jax.Array, sizes: jax.Array) -> jax.Array:
    """Clip boxes (…, 4) to images with heights and widths `sizes` (…, 2)."""
    return jnp.clip(box, 0, jnp.tile(sizes[..., ::-1] - 1, 2).astype(box.dtype))
