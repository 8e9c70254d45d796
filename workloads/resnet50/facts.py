"""The counts of ImageNet and of data sets in its layout."""

from __future__ import annotations

from workloads.common.images.counts import ImageFacts

IMAGENET = ImageFacts("an image", "imagenet", {"train": 1_281_167, "val": 50_000, "classes": 1_000})
"""ILSVRC2012 (reference imagenet_main.py)."""
