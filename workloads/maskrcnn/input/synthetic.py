"""Synthetic batches of Mask R-CNN for throughput measurements."""

from __future__ import annotations

import numpy as np

from workloads.api import Array
from workloads.common.images.synthetic import SyntheticData
from workloads.common.randomness import bits, fold, uniform
from workloads.maskrcnn import anchors
from workloads.maskrcnn.input import rpn_targets


class SyntheticSampleData(SyntheticData):
    """Synthetic batches with the same arrays as `SampleData`.

    The images fill the padded shape.
    """

    BATCHES = 2
    STREAM = "maskrcnn synthetic"
    OBJECTS = 7
    """Number of objects per image, which is the mean of COCO."""
    CORNERS = 16
    """Number of vertices of an object's polygon, an ellipse. Each object has a single polygon."""

    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Return random boxes, polygons, and anchor targets for `count` images."""
        height, width = self.shape
        most, slots = (
            self.dataset_info.sizes["objects_per_image_most"],
            int(self.settings.model["rpn_samples"]),
        )
        objects = min(self.OBJECTS, most)
        draws = uniform(bits(key, 1, np.arange(count * objects * 4))).reshape(count, objects, 2, 2)
        sides = np.array([width, height])
        extent = sides * (0.05 + 0.4 * draws[:, :, 1])
        low = (sides - 1 - extent) * draws[:, :, 0]
        box = np.zeros((count, most, 4), np.float32)
        box[:, :objects] = np.concatenate([low, low + extent], axis=2)
        label = np.zeros((count, most), np.int32)
        classes = (
            uniform(bits(key, 2, np.arange(count * objects))).reshape(count, objects)
            * self.dataset_info.sizes["classes"]
        )
        label[:, :objects] = 1 + classes.astype(np.int32)
        turn = np.linspace(0, 2 * np.pi, self.CORNERS, endpoint=False)
        circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        points = (low + extent / 2)[:, :, None] + circle * (extent / 2)[:, :, None]
        polygons = np.cumsum(np.tile(np.arange(most) < objects, count))
        levels = anchors.levels(self.settings.model, height, width)
        drawn = [
            rpn_targets.sample(
                rpn_targets.label(levels, image_box, height, width),
                levels,
                image_box,
                slots,
                fold(key, 3, number),
            )
            for number, image_box in enumerate(box[:, :objects])
        ]
        return {
            "size": np.tile(np.array([height, width], np.int32), (count, 1)),
            "anchor": np.stack([sample.anchor for sample in drawn]),
            "anchor_label": np.stack([sample.label for sample in drawn]),
            "anchor_weight": np.stack([sample.weight for sample in drawn]),
            "anchor_offset": np.stack([sample.offset for sample in drawn]),
            "box": box,
            "label": label,
            "number": np.arange(count, dtype=np.int64),
            "points": points.reshape(-1, 2).astype(np.float32),
            "polygon_ends": np.arange(1, count * objects + 1, dtype=np.int64) * self.CORNERS,
            "object_ends": polygons.astype(np.int64),
            "epoch": np.zeros(1, np.int64),
        }
