"""The counts of COCO 2017 and of data sets in its layout."""

from __future__ import annotations

from workloads.common.images.counts import ImageFacts

GROUND_TRUTH = "val_ground_truth.json"
"""What COCO's metric compares with, in the prepared folder."""
COCO2017 = ImageFacts("a detection", "coco2017", other_counts=("val_objects",))
