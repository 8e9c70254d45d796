"""Conversion of RPN's outputs to proposals.

The best anchors of each level are decoded, clipped, and suppressed. Then the best proposals over
all levels are selected. In training, the limit on the number of proposals applies to all images of
a device together. In evaluation, the limit applies to each image separately (reference
modeling/rpn/inference.py). Anchors are ranked by their logits. In contrast, the reference ranks
anchors by the sigmoid, which rounds the largest logits to equal scores. Proposals with equal scores
are ordered by image, then from the finest to the coarsest level, then by anchor index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Float32s, Int32s, Int64s
from workloads.maskrcnn import boxes
from workloads.maskrcnn.regions.rules import PROPOSAL_NMS_IOU, RegionRules, Suppress, suppressed


@dataclass(frozen=True)
class Proposals:
    """The n proposals of an image, with the best proposal first."""

    box: Float32s
    """Boxes (n, 4) of the proposals."""
    anchor: Int64s
    """Index (n,) of the anchor from which each proposal was decoded."""

    def __len__(self) -> int:
        return len(self.box)


def propose(
    objectness: Float32s,
    deltas: Float32s,
    anchors: Sequence[Float32s],
    sizes: Int32s,
    rules: RegionRules,
    suppress: Suppress,
    training: bool,
) -> list[Proposals]:
    """Return the proposals of each image.

    Args:
        objectness: Logits (B, A) of A anchors.
        deltas: Box deltas (B, A, 4).
        anchors: Anchors (A_l, 4) of each level, from fine to coarse.
        sizes: Height and width (B, 2) of each image without padding.
        rules: Numbers and limits of proposals.
        suppress: Non-maximum suppression of the framework.
        training: True to use the limits for training. False to use the limits for evaluation.
    """
    before, after = (counts[0 if training else 1] for counts in (rules.before_nms, rules.after_nms))
    of_images: list[list[Proposals]] = [[] for _ in objectness]
    first = 0
    for of_level in anchors:
        last = first + len(of_level)
        best = np.stack([top(row, min(before, len(of_level))) for row in objectness[:, first:last]])
        images = np.arange(len(best))[:, None]
        scores = objectness[images, first + best]
        decoded = boxes.decode(deltas[images, first + best], of_level[best], boxes.RPN_WEIGHTS)
        for image, of_image in enumerate(of_images):
            box = boxes.clip(decoded[image], *sizes[image].tolist())
            kept = suppressed(suppress, box, scores[image], PROPOSAL_NMS_IOU)[:after]
            of_image.append(Proposals(box[kept], first + best[image, kept]))
        first = last
    merged = [_merged(of_image) for of_image in of_images]
    of_batch = rules.of_batch if training else None
    return _best(
        merged,
        [row[part.anchor] for row, part in zip(objectness, merged, strict=True)],
        rules.of_image,
        of_batch,
    )


def top(scores: Float32s, count: int) -> Int64s:
    """Return the indices (count,) of the best scores in `scores` (n,), best score first.

    The order of equal scores does not change.
    """
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    if count < len(ranked):
        least = np.partition(ranked, len(ranked) - count)[len(ranked) - count]
        above, equal = np.flatnonzero(ranked > least), np.flatnonzero(ranked == least)
        indices = np.concatenate([above, equal[: count - len(above)]])
        indices.sort()
    else:
        indices = np.arange(len(ranked))
    return np.asarray(indices[np.argsort(-ranked[indices], kind="stable")])


def _merged(parts: list[Proposals]) -> Proposals:
    return Proposals(
        np.concatenate([part.box for part in parts]),
        np.concatenate([part.anchor for part in parts]),
    )


def _best(
    proposals: list[Proposals], scores: list[Float32s], of_image: int, of_batch: int | None
) -> list[Proposals]:
    """Return the best `of_batch` proposals of all images, or `of_image` of each image.

    If `of_batch` is None, `of_image` applies. The proposals of an image are sorted, with the best
    proposal first.
    """
    kept = [top(score, min(of_image, len(score))) for score in scores]
    if of_batch is not None:
        counts = [len(score) for score in scores]
        chosen = top(np.concatenate(scores), min(of_batch, sum(counts)))
        image, row = (
            np.repeat(np.arange(len(counts)), counts),
            np.concatenate([np.arange(count) for count in counts]),
        )
        kept = [row[chosen[image[chosen] == number]] for number in range(len(counts))]
    return [
        Proposals(part.box[rows], part.anchor[rows])
        for part, rows in zip(proposals, kept, strict=True)
    ]
