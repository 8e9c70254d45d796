"""Batches of image classifiers: JPEGs decoded, cropped and flipped by threads while training runs.

Order, shares and filling up are those of `workloads.common.images.sharded`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from workloads.api import Array, Facts, Place, Settings
from workloads.common.images.batches.augment import crop_boxes, flips
from workloads.common.images.jpeg import Reader
from workloads.common.images.resize import central_into, resize_into
from workloads.common.images.sharded import Begun, ImageData, ImageJob, Int64s, UInt8s
from workloads.common.images.synthetic import SyntheticData
from workloads.common.randomness import bits, integers


class ImageNetData(ImageData):
    """`workloads.api.Data` over a prepared image data set.

    Arrays of a training batch: `image` uint8 (B, H, W, 3) RGB, `label` int32 (B,), B the same in every step. Of an
    evaluation batch: the same and `valid` bool (B,), False where an image only fills the batch up (black, label 0).
    """

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        super().__init__(settings, facts, place, seed)
        self.resize_size = int(settings.model["resize_size"])
        self.area_minimum = float(settings.model["area_minimum"])

    def begin(self, job: ImageJob) -> Begun:
        images, epoch = job.images, job.epoch
        arrays: dict[str, Array] = {"image": self.take(len(images), job.shape), "label": self.images.label[images]}
        boxes, mirrored = self._boxes(images, epoch), flips(self.seed, epoch, images)
        make = partial(self._make, arrays, images.tolist(), boxes.tolist(), mirrored.tolist(), epoch)
        return arrays, self.pool.start(make, len(images))

    def _boxes(self, images: Int64s, epoch: int) -> Int64s:
        """Crops (n, 4) of images (n,)."""
        widths, heights = self.images.width[images], self.images.height[images]
        return crop_boxes(self.seed, epoch, images, widths, heights, self.area_minimum)

    def _make(
        self,
        arrays: dict[str, Array],
        images: list[int],
        boxes: list[list[int]],
        mirrored: list[bool],
        epoch: int,
        reader: Reader,
        slot: int,
    ) -> None:
        """Write image `slot` of a batch."""
        out = arrays["image"][slot]

        def make(image: int) -> None:
            box = boxes[slot] if image == images[slot] else self._boxes(np.array([image]), epoch)[0].tolist()
            part = self.part(reader, image, (box[0], box[1], box[2], box[3]), out.shape[:2])
            resize_into(part, out, mirrored[slot])

        made = self.make_or_replace(images[slot], make)
        if made != images[slot]:
            arrays["label"][slot] = self.images.label[made]

    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """The centre of the image, whose shorter side is made `resize_size` as the reference does."""
        central_into(pixels, out, self.resize_size)


class SyntheticImageData(SyntheticData):
    """Synthetic batches: `image` and `label` as `ImageNetData` has them."""

    BATCHES = 4
    STREAM = "image synthetic"

    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Labels (count,)."""
        return {"label": integers(bits(key, 1, np.arange(count)), self.facts.sizes["classes"]).astype(np.int32)}
