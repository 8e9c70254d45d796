"""RPN's outputs to proposals: the best anchors of each level, decoded, clipped, suppressed; then the best over all levels.

In training the last limit is for all images of a device together, in evaluation for each (reference
modeling/rpn/inference.py). Anchors are ranked by their logits, the reference by the logits' sigmoid, which rounds the
largest to equal ones. Of equal scores the earlier image, the finer level and the lower anchor come first.
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
    """n proposals of an image, best first."""

    box: Float32s
    """(n, 4)"""
    anchor: Int64s
    """(n,) flat number of the anchor that each was decoded from."""

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
    """The proposals of each image.

    `objectness` (B, A) logits and `deltas` (B, A, 4) of A anchors; `anchors`: (A_l, 4) of each level, the finest first;
    `sizes` (B, 2) height and width of each image without padding.
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
        merged, [row[one.anchor] for row, one in zip(objectness, merged, strict=True)], rules.of_image, of_batch
    )


def top(scores: Float32s, count: int) -> Int64s:
    """Places (count,) of the best scores (n,), best first; of equal ones the first."""
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    if count < len(ranked):
        least = np.partition(ranked, len(ranked) - count)[len(ranked) - count]
        above, equal = np.flatnonzero(ranked > least), np.flatnonzero(ranked == least)
        places = np.concatenate([above, equal[: count - len(above)]])
        places.sort()
    else:
        places = np.arange(len(ranked))
    return np.asarray(places[np.argsort(-ranked[places], kind="stable")])


def _merged(parts: list[Proposals]) -> Proposals:
    return Proposals(np.concatenate([one.box for one in parts]), np.concatenate([one.anchor for one in parts]))


def _best(proposals: list[Proposals], scores: list[Float32s], of_image: int, of_batch: int | None) -> list[Proposals]:
    """The best `of_batch` of all images together, or `of_image` of each; best first within an image."""
    kept = [top(score, min(of_image, len(score))) for score in scores]
    if of_batch is not None:
        counts = [len(score) for score in scores]
        chosen = top(np.concatenate(scores), min(of_batch, sum(counts)))
        image, place = np.repeat(np.arange(len(counts)), counts), np.concatenate([np.arange(count) for count in counts])
        kept = [place[chosen[image[chosen] == number]] for number in range(len(counts))]
    return [Proposals(one.box[places], one.anchor[places]) for one, places in zip(proposals, kept, strict=True)]
