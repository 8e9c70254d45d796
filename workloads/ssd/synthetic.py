"""Made-up batches of SSD, for throughput alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workloads.api import Array, Batch, Facts, Place, Settings
from workloads.common.randomness import bits, integers, normal, stream
from workloads.ssd import priors


class SyntheticDetectionData:
    """A few batches are made once and handed out in turn, never copied."""

    BATCHES = 2
    POSITIVES = 40
    """Of the priors of an image, as COCO has about."""

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        self.place = place
        total, size, of_priors = (
            settings.batch_size_global,
            int(settings.model["image_size"]),
            priors.count(settings.model),
        )
        count = total // place.replicas_total
        self.batches = []
        for number in range(self.BATCHES):
            key = stream(seed, "detection synthetic", number)
            pixels = bits(key, 0, np.arange(-(-count * size * size * 3 // 8))).view(np.uint8)
            image = pixels[: count * size * size * 3].reshape(count, size, size, 3)
            hit = (
                integers(bits(key, 1, np.arange(count * of_priors)), of_priors).reshape(count, of_priors)
                < self.POSITIVES
            )
            label = 1 + integers(bits(key, 2, np.arange(count * of_priors)), facts.sizes["classes"]).reshape(hit.shape)
            offset = normal(bits(key, 3, np.arange(count * 4 * of_priors))).reshape(count, 4, of_priors)
            arrays: dict[str, Array] = {
                "image": image,
                "offset": np.where(hit[:, None], offset, 0).astype(np.float32),
                "label": np.where(hit, label, 0).astype(np.int32),
            }
            self.batches.append(Batch(arrays, float(count), float(total), total))

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Batches of the real sizes; which made-up images they hold means nothing."""
        for step in range(first_step, stop_step):
            yield [self.batches[(step + replica) % self.BATCHES] for replica in self.place.replicas]

    def evaluation(self) -> Iterator[list[Batch]]:
        """Nothing: made-up data has no quality."""
        return iter(())

    def close(self) -> None:
        """Nothing to release."""
