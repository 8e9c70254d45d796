"""Batches of image classifiers, with a key for the dropout masks of each image."""

from __future__ import annotations

import numpy as np

from workloads.api import Array
from workloads.common import dropout
from workloads.common.images.batches.arrays import FORM, ArrayData
from workloads.common.images.batches.labelled import ImageNetData, SyntheticImageData
from workloads.common.images.sharded import Begun, ImageJob
from workloads.common.randomness import bits

__all__ = ["FORM", "SyntheticZooData", "ZooArrays", "ZooImages"]


class ZooImages(ImageNetData):
    """Input pipeline over JPEG images, which are cropped and flipped."""

    def begin(self, job: ImageJob) -> Begun:
        arrays, tasks = super().begin(job)
        return {**arrays, "dropout_key": dropout.keys(self.seed, job.epoch, job.images)}, tasks


class ZooArrays(ArrayData):
    """Input pipeline over small images without augmentation."""

    def begin(self, job: ImageJob) -> Begun:
        arrays, tasks = super().begin(job)
        return {**arrays, "dropout_key": dropout.keys(self.seed, job.epoch, job.images)}, tasks


class SyntheticZooData(SyntheticImageData):
    """Synthetic images with labels and dropout keys."""

    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Return random labels and dropout keys (count,)."""
        keys = (bits(key, 2, np.arange(count)) >> np.uint64(1)).view(np.int64)
        return {**super().targets(key, count), "dropout_key": keys}
