"""Matching and detection in plain Python and float64, box by box.

The fast versions must agree with these functions.
"""

import math


def iou(a, b):
    """Return the IoU of two boxes (left, top, right, bottom)."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


def match(boxes, priors, minimum=0.5):
    """Return the number of the box of each prior, or -1.

    Among equal overlaps, the first box counts. If several boxes claim a prior, the last box has it.
    """
    found = []
    for prior in priors:
        best, number = minimum, -1
        for i, box in enumerate(boxes):
            if iou(box, prior) > best:
                best, number = iou(box, prior), i
        found.append(number)
    for i, box in enumerate(boxes):
        overlaps = [iou(box, prior) for prior in priors]
        found[overlaps.index(max(overlaps))] = i
    return found


def encode(box, prior):
    """Return the offsets (dx, dy, dw, dh) of a box from a prior.

    The box has corners, the prior center and size.
    """
    x, y, width, height = prior
    return (
        ((box[0] + box[2]) / 2 - x) / width / 0.1,
        ((box[1] + box[3]) / 2 - y) / height / 0.1,
        math.log((box[2] - box[0]) / width) / 0.2,
        math.log((box[3] - box[1]) / height) / 0.2,
    )


def decode(offset, prior):
    """Return the corners of a box."""
    x, y = prior[0] + offset[0] * 0.1 * prior[2], prior[1] + offset[1] * 0.1 * prior[3]
    width, height = prior[2] * math.exp(offset[2] * 0.2), prior[3] * math.exp(offset[3] * 0.2)
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def softmax(logits):
    """Return the softmax of a list."""
    top = max(logits)
    powers = [math.exp(value - top) for value in logits]
    return [power / sum(powers) for power in powers]


def detect(logits, offsets, priors, per_class=200, per_image=200):
    """Return (score, label, prior, box) of an image's detections.

    Args:
        logits: Indexed by [prior][class].
        offsets: Indexed by [prior].
        priors: Priors as center and size.
        per_class: Maximum number of candidates of a class.
        per_image: Maximum number of detections.
    """
    scores = [softmax(row) for row in logits]
    everything = []
    for label in range(1, len(logits[0])):
        ranked = sorted(
            (-scores[p][label], p) for p in range(len(priors)) if scores[p][label] > 0.05
        )[:per_class]
        kept = []
        for negative, p in ranked:
            box = decode(offsets[p], priors[p])
            if all(iou(box, better[3]) < 0.5 for better in kept):
                kept.append((-negative, label, p, box))
        everything += kept
    return sorted(everything, key=lambda found: (-found[0], found[1], found[2]))[:per_image]
