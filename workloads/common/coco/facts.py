"""The counts of COCO 2017 and of data sets in its layout."""

from __future__ import annotations

from workloads.common.images.counts import ImageFacts

GROUND_TRUTH = "val_ground_truth.json"
"""What COCO's metric compares with, in the prepared folder."""
COCO2017 = ImageFacts(
    "a detection", "coco2017", {"train": 117_266, "val": 4_952, "classes": 80}, other_counts=("val_objects",)
)
"""COCO 2017, images with objects (published logs: train_samples, eval_samples)."""
COCO2014 = ImageFacts("a detection", "coco2014", COCO2017.published, other_counts=("val_objects",))
"""COCO 2014 in the split of round v0.5: the same images."""
PUBLISHED_IMAGES = {"train": 118_287, "val": 5_000}
"""COCO 2017, all images."""
