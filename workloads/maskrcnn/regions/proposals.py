"""RPN's outputs to proposals: the best anchors of each level, decoded, clipped, suppressed; then the best over all levels.

In training the last limit is for all images of a device together, in evaluation for each (reference
modeling/rpn/inference.py). Anchors are ranked by their logits, the reference by the logits' sigmoid, which rounds the
largest to equal ones. Of equal scores the earlier image, the finer level and the lower anchor come first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workloads.maskrcnn import boxes
from workloads.maskrcnn.regions.rules import PROPOSAL_NMS_IOU, Float32s, Int32s, Int64s, Rules, Suppress, suppressed


def propose(
    objectness: Float32s,
    deltas: Float32s,
    anchors: Sequence[Float32s],
    sizes: Int32s,
    rules: Rules,
    suppress: Suppress,
    training: bool,
) -> list[Float32s]:
    """Proposals (n, 4) of each image, best first.

    `objectness` (B, A) logits and `deltas` (B, A, 4) of A anchors; `anchors`: (A_l, 4) of each level, the finest first;
    `sizes` (B, 2) height and width of each image without padding.
    """
    before, after = ((rules.before_nms, rules.after_nms)[late][0 if training else 1] for late in (0, 1))
    found: list[tuple[list[Float32s], list[Float32s]]] = [([], []) for _ in objectness]
    first = 0
    for of_level in anchors:
        last = first + len(of_level)
        best = np.stack([top(row, min(before, len(of_level))) for row in objectness[:, first:last]])
        images = np.arange(len(best))[:, None]
        scores = objectness[images, first + best]
        # A network that diverges gives numbers that are none: the loss says so, and pooling must not read out of bounds.
        moved = np.nan_to_num(deltas[images, first + best])
        decoded = boxes.decode(moved, of_level[best], boxes.RPN_WEIGHTS)
        for image, (proposed, score) in enumerate(found):
            box = boxes.clip(decoded[image], *sizes[image].tolist())
            kept = suppressed(suppress, box, scores[image], PROPOSAL_NMS_IOU)[:after]
            proposed.append(box[kept])
            score.append(scores[image, kept])
        first = last
    return _best(
        [np.concatenate(box) for box, _ in found], [np.concatenate(score) for _, score in found], rules, training
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


def _best(box: list[Float32s], score: list[Float32s], rules: Rules, training: bool) -> list[Float32s]:
    """The best of the images together or of each image, best first within an image."""
    if not training:
        return [one[top(of_one, min(rules.of_image, len(one)))] for one, of_one in zip(box, score, strict=True)]
    counts = [len(one) for one in box]
    kept = top(np.concatenate(score), min(rules.of_batch, sum(counts)))
    image = np.repeat(np.arange(len(box)), counts)
    every = np.concatenate(box)
    return [every[kept[image[kept] == number]] for number in range(len(box))]
