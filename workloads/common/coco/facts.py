"""The counts of COCO 2017 and of data sets in its layout."""

from __future__ import annotations

from workloads.common.images.counts import ImageFacts

GROUND_TRUTH = "val_ground_truth.json"
"""What COCO's metric compares with, in the prepared folder."""
COCO2017 = ImageFacts(
    "a detection", "coco2017", {"train": 117_266, "val": 4_952, "classes": 80}, other_counts=("val_objects",)
)
"""COCO 2017, images with objects (published logs: train_samples, eval_samples)."""
PUBLISHED_IMAGES = {"train": 118_287, "val": 5_000}
"""COCO 2017, all images."""
