"""Synthetic batches of SSD for throughput measurements."""

from __future__ import annotations

import numpy as np

from workloads.api import Array
from workloads.common.images.synthetic import SyntheticData
from workloads.common.randomness import bits, integers, normal
from workloads.ssd import priors


class SyntheticDetectionData(SyntheticData):
    """Synthetic batches with the arrays `image`, `offset`, and `label`.

    Batches of `DetectionData` have the same arrays.
    """

    BATCHES = 2
    STREAM = "detection synthetic"
    POSITIVES = 40
    """Mean number of positive priors per image, similar to COCO."""

    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Return offsets (count, 4, P) and labels (count, P) of random positive priors."""
        prior_count = priors.count(self.settings.model)
        index = np.arange(count * prior_count)
        positive = (integers(bits(key, 1, index), prior_count) < self.POSITIVES).reshape(
            count, prior_count
        )
        label = 1 + integers(bits(key, 2, index), self.dataset_info.sizes["classes"]).reshape(
            positive.shape
        )
        offset = normal(bits(key, 3, np.arange(4 * index.size))).reshape(count, 4, prior_count)
        return {
            "offset": np.where(positive[:, None], offset, 0).astype(np.float32),
            "label": np.where(positive, label, 0).astype(np.int32),
        }
