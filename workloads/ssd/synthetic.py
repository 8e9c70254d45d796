"""Synthetic batches of SSD, for throughput alone."""

from __future__ import annotations

import numpy as np

from workloads.api import Array
from workloads.common.images.synthetic import SyntheticData
from workloads.common.randomness import bits, integers, normal
from workloads.ssd import priors


class SyntheticDetectionData(SyntheticData):
    """Synthetic batches of SSD: `image`, `offset`, `label` as `DetectionData` has them."""

    BATCHES = 2
    STREAM = "detection synthetic"
    POSITIVES = 40
    """Of the priors of an image, as COCO has about."""

    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Offsets (count, 4, P) and labels (count, P) of random positives."""
        prior_count = priors.count(self.settings.model)
        each = np.arange(count * prior_count)
        positive = (integers(bits(key, 1, each), prior_count) < self.POSITIVES).reshape(count, prior_count)
        label = 1 + integers(bits(key, 2, each), self.dataset_info.sizes["classes"]).reshape(positive.shape)
        offset = normal(bits(key, 3, np.arange(4 * each.size))).reshape(count, 4, prior_count)
        return {
            "offset": np.where(positive[:, None], offset, 0).astype(np.float32),
            "label": np.where(positive, label, 0).astype(np.int32),
        }
