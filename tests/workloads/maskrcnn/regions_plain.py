"""Boxes, proposals, sampling and detections one by one in plain NumPy, float64: what the host's
functions are held against.
"""

import math

import numpy as np

from workloads.common.randomness import bits, stream


def sides(box):
    """Width and height; the right and the bottom pixel belong to a box."""
    return box[2] - box[0] + 1, box[3] - box[1] + 1


def iou(one, other):
    """Of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0]) + 1
    height = min(one[3], other[3]) - max(one[1], other[1]) + 1
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (math.prod(sides(one)) + math.prod(sides(other)) - shared)


def encode(box, reference, weights):
    """Deltas of one box."""
    (width, height), (of_width, of_height) = sides(box), sides(reference)
    x, y = box[0] + 0.5 * width, box[1] + 0.5 * height
    of_x, of_y = reference[0] + 0.5 * of_width, reference[1] + 0.5 * of_height
    moves = (x - of_x) / of_width, (y - of_y) / of_height
    return np.array([*moves, math.log(width / of_width), math.log(height / of_height)]) * weights


def decode(delta, reference, weights):
    """A box from its deltas."""
    of_width, of_height = sides(reference)
    dx, dy, dw, dh = np.asarray(delta, np.float64) / weights
    x, y = (
        reference[0] + 0.5 * of_width + dx * of_width,
        reference[1] + 0.5 * of_height + dy * of_height,
    )
    most = math.log(1000 / 16)
    width, height = math.exp(min(dw, most)) * of_width, math.exp(min(dh, most)) * of_height
    return np.array([x - 0.5 * width, y - 0.5 * height, x + 0.5 * width - 1, y + 0.5 * height - 1])


def clip(box, height, width):
    """One box inside an image."""
    return np.array(
        [
            min(max(value, 0), most - 1)
            for value, most in zip(box, (width, height, width, height), strict=True)
        ]
    )


def suppress(boxes, scores, most_iou):
    """Places of boxes whose right and bottom pixels belong to them that no better kept one overlaps
    by more.
    """
    kept = []
    for place in sorted(range(len(boxes)), key=lambda place: (-scores[place], place)):
        if all(iou(boxes[place], boxes[other]) <= most_iou for other in kept):
            kept.append(place)
    return np.array(kept, np.int64)


def suppress_edges(boxes, scores, most_iou):
    """The same for boxes whose right and bottom edges do not belong to them, as frameworks have it."""
    boxes = np.float64(boxes) - np.array([0, 0, 1, 1])
    return suppress(boxes, scores, most_iou)


def propose(objectness, deltas, anchors, sizes, before, after, most, of_batch):
    """Boxes and anchors of each image's proposals, best first; `most` of all images together or of
    each.
    """
    found = []  # (score, image, level, place among the level's), box and anchor
    first = 0
    for level, of_level in enumerate(anchors):
        for image, scores in enumerate(objectness[:, first : first + len(of_level)]):
            order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:before]
            boxes = [
                decode(deltas[image, first + place], of_level[place], np.ones(4)) for place in order
            ]
            boxes = [clip(box, *sizes[image]) for box in boxes]
            for rank in suppress(boxes, scores[order], 0.7)[:after]:
                found.append(
                    ((-scores[order[rank]], image, level, rank), boxes[rank], first + order[rank])
                )
        first += len(of_level)
    found.sort(key=lambda one: one[0])
    images = range(len(objectness))
    if of_batch:
        found = found[:most]
    per_image = [
        [row for row in found if row[0][1] == image][: None if of_batch else most]
        for image in images
    ]
    boxes = [np.array([box for _, box, _ in rows]).reshape(-1, 4) for rows in per_image]
    return [
        (box, [anchor for *_, anchor in rows]) for box, rows in zip(boxes, per_image, strict=True)
    ]


def sample(proposals, box, label, number, epoch, seed, regions, positives):
    """For each image a list of (box, label, delta or None, object or None): positives, then
    background.
    """
    key, found = stream(seed, "regions", epoch), []
    for image, (proposed, of_anchors) in enumerate(proposals):
        objects = [place for place in range(len(label[image])) if label[image, place] > 0]
        candidates = [*proposed, *(box[image, place] for place in objects)]
        names = [*((0, int(anchor)) for anchor in of_anchors), *((1, place) for place in objects)]
        hashes = [int(bits(key, int(number[image]), *name)) for name in names]
        order = sorted(range(len(candidates)), key=hashes.__getitem__)
        overlaps = [
            [iou(candidate, box[image, place]) for place in objects] for candidate in candidates
        ]
        best = [int(np.argmax(overlap)) if objects else 0 for overlap in overlaps]
        is_positive = [
            bool(objects) and overlap[one] >= 0.5
            for overlap, one in zip(overlaps, best, strict=True)
        ]
        chosen = [place for place in order if is_positive[place]][:positives]
        learned = []
        for place in chosen:
            matched = objects[best[place]]
            delta = encode(box[image, matched], candidates[place], np.array([10, 10, 5, 5]))
            learned.append((candidates[place], int(label[image, matched]), delta, matched))
        rest = [place for place in order if not is_positive[place]][: regions - len(chosen)]
        found.append([*learned, *((candidates[place], 0, None, None) for place in rest)])
    return found


def level(box, size, base, levels):
    """Which level a box is pooled from, the finest 0."""
    found = math.floor(base + math.log2(math.sqrt(math.prod(sides(box))) / size + 1e-6))
    return min(max(found, 2), levels + 1) - 2


def detect(proposals, probabilities, deltas, sizes, most):
    """For each image (box, score, label) of its detections, best first."""
    found = []
    for image, proposed in enumerate(proposals):
        of_image = []
        for label in range(1, probabilities.shape[2]):
            places = [
                place for place in range(len(proposed)) if probabilities[image, place, label] > 0.05
            ]
            weights = np.array([10, 10, 5, 5])
            boxes = [
                clip(decode(deltas[image, p, label], proposed[p], weights), *sizes[image])
                for p in places
            ]
            scores = probabilities[image, places, label]
            kept = suppress(boxes, scores, 0.5)
            of_image += [(boxes[one], scores[one], label) for one in kept]
        found.append(sorted(of_image, key=lambda one: -one[1])[:most])
    return found
