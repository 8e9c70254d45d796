"""Boxes, proposals, sampling and detections in plain NumPy and float64.

The host's functions are compared with these functions, which process every box individually.
"""

import math

import numpy as np

from workloads.common.randomness import bits, stream


def sides(box):
    """Return width and height. The right and the bottom pixel belong to a box."""
    return box[2] - box[0] + 1, box[3] - box[1] + 1


def iou(first, second):
    """Return the IoU of two boxes."""
    width = min(first[2], second[2]) - max(first[0], second[0]) + 1
    height = min(first[3], second[3]) - max(first[1], second[1]) + 1
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (math.prod(sides(first)) + math.prod(sides(second)) - shared)


def encode(box, reference, weights):
    """Return the deltas of a box."""
    (width, height), (of_width, of_height) = sides(box), sides(reference)
    x, y = box[0] + 0.5 * width, box[1] + 0.5 * height
    of_x, of_y = reference[0] + 0.5 * of_width, reference[1] + 0.5 * of_height
    moves = (x - of_x) / of_width, (y - of_y) / of_height
    return np.array([*moves, math.log(width / of_width), math.log(height / of_height)]) * weights


def decode(delta, reference, weights):
    """Return the box for its deltas."""
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
    """Return a box clipped to an image."""
    return np.array(
        [
            min(max(value, 0), most - 1)
            for value, most in zip(box, (width, height, width, height), strict=True)
        ]
    )


def suppress(boxes, scores, most_iou):
    """Return the indices of the boxes that are kept.

    A box is dropped if its IoU with a better kept box is larger than `most_iou`. The right and
    bottom pixels belong to a box.
    """
    kept = []
    for place in sorted(range(len(boxes)), key=lambda place: (-scores[place], place)):
        if all(iou(boxes[place], boxes[better]) <= most_iou for better in kept):
            kept.append(place)
    return np.array(kept, np.int64)


def suppress_edges(boxes, scores, most_iou):
    """Return the same for boxes without their right and bottom edges, as in the frameworks."""
    boxes = np.float64(boxes) - np.array([0, 0, 1, 1])
    return suppress(boxes, scores, most_iou)


def propose(objectness, deltas, anchors, sizes, before, after, most, of_batch):
    """Return boxes and anchors of each image's proposals in descending order of scores.

    `most` limits all images together if `of_batch`, else each image.
    """
    found = []  # (score, image, level, rank in the level), box and anchor
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
    found.sort(key=lambda row: row[0])
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
    """Return a list of (box, label, delta or None, object or None) for each image.

    Positive regions are first, followed by background.
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
            bool(objects) and overlap[index] >= 0.5
            for overlap, index in zip(overlaps, best, strict=True)
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
    """Return the level that a box is pooled from. The finest level is 0."""
    found = math.floor(base + math.log2(math.sqrt(math.prod(sides(box))) / size + 1e-6))
    return min(max(found, 2), levels + 1) - 2


def detect(proposals, probabilities, deltas, sizes, most):
    """Return the (box, score, label) of each image's detections in descending order of scores."""
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
            of_image += [(boxes[index], scores[index], label) for index in kept]
        found.append(sorted(of_image, key=lambda index: -index[1])[:most])
    return found
