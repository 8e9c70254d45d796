"""The counts of a prepared detection data set, from its manifest alone."""

from __future__ import annotations

from pathlib import Path

from workloads.api import Facts
from workloads.common.images import counts

GROUND_TRUTH = "val_ground_truth.json"
"""What COCO's metric compares with, in the prepared folder."""
PUBLISHED = {"train": 117_266, "val": 4_952, "classes": 80}
"""COCO 2017, images with objects (published logs: train_samples, eval_samples)."""
PUBLISHED_IMAGES = {"train": 118_287, "val": 5_000}
"""COCO 2017, all images."""


def read_facts(data_dir: str | Path) -> Facts:
    """Counts from the manifest of a prepared detection data set. Raises ValueError that says what to type."""
    return counts.read(Path(data_dir), "a detection", "coco2017", needed=("val_objects",))


def published_facts() -> Facts:
    """COCO's counts, for runs on made-up batches."""
    return counts.published(PUBLISHED)
