"""Annotations of several files as those of one: COCO 2014's training images of round v0.5 lie in two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workloads.common.coco.annotations import Annotations


def merge(parts: Sequence[Annotations]) -> Annotations:
    """Several files as one, rows in the same order as in one. Raises ValueError where they do not belong together."""
    first, *others = parts
    if not others:
        return first
    for other in others:
        if other.categories != first.categories or bool(other.mask) != bool(first.mask):
            raise ValueError(f"{other.path}: other categories or masks than {first.path}; both must be of one data set")
        shared = np.intersect1d(first.image_id, other.image_id)
        if len(shared):
            raise ValueError(f"{other.path}: image {shared[0]} stands in {first.path} too")
    image_id = np.concatenate([part.image_id for part in parts])
    order = np.argsort(image_id, kind="stable")
    place = np.argsort(order, kind="stable")
    starts = np.cumsum([0, *(len(part.names) for part in parts[:-1])])
    image = place[np.concatenate([start + part.image for start, part in zip(starts, parts, strict=True)])]
    object_id = np.concatenate([part.object_id for part in parts])
    objects = np.lexsort((object_id, image))
    names, folder, mask = (
        [value for part in parts for value in getattr(part, name)] for name in ("names", "folder", "mask")
    )
    of_images = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in ("width", "height")}
    of_objects = {
        name: np.concatenate([getattr(part, name) for part in parts])[objects]
        for name in ("box", "label", "area", "crowd")
    }
    return Annotations(
        path=first.path,
        categories=first.categories,
        image_id=image_id[order],
        names=[names[row] for row in order.tolist()],
        folder=[folder[row] for row in order.tolist()],
        image=image[objects],
        object_id=object_id[objects],
        mask=[mask[row] for row in objects.tolist()] if mask else [],
        problems=[line for part in parts for line in part.problems],
        known=[line for part in parts for line in part.known],
        **of_images,
        **of_objects,
    )
