"""Made-up batches of SSD, for throughput alone."""

from __future__ import annotations

import numpy as np

from workloads.api import Array, Batch, Facts, Place, Settings
from workloads.common.images.synthetic import SyntheticData, random_pixels
from workloads.common.randomness import bits, integers, normal, stream
from workloads.ssd import priors


class SyntheticDetectionData(SyntheticData):
    """Made-up batches of SSD."""

    BATCHES = 2
    POSITIVES = 40
    """Of the priors of an image, as COCO has about."""

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        total, size = settings.batch_size_global, int(settings.model["image_size"])
        count, of_priors = total // place.replicas_total, priors.count(settings.model)
        batches = []
        for number in range(self.BATCHES):
            key, each = stream(seed, "detection synthetic", number), np.arange(count * of_priors)
            hit = (integers(bits(key, 1, each), of_priors) < self.POSITIVES).reshape(count, of_priors)
            label = 1 + integers(bits(key, 2, each), facts.sizes["classes"]).reshape(hit.shape)
            offset = normal(bits(key, 3, np.arange(4 * each.size))).reshape(count, 4, of_priors)
            arrays: dict[str, Array] = {
                "image": random_pixels(key, count, size),
                "offset": np.where(hit[:, None], offset, 0).astype(np.float32),
                "label": np.where(hit, label, 0).astype(np.int32),
            }
            batches.append(Batch(arrays, float(count), float(total), total))
        super().__init__(place, batches)
