"""The counts of a prepared image data set, from its manifest alone."""

from __future__ import annotations

from pathlib import Path

from workloads.api import Facts
from workloads.common.images import counts

PUBLISHED = {"train": 1_281_167, "val": 50_000, "classes": 1_000}
"""ImageNet ILSVRC2012 (reference imagenet_main.py)."""


def read_facts(data_dir: str | Path) -> Facts:
    """Counts from the manifest of a prepared image data set. Raises ValueError that says what to type."""
    return counts.read(Path(data_dir), "an image", "imagenet")


def published_facts() -> Facts:
    """ImageNet's counts, for runs on made-up batches."""
    return counts.published(PUBLISHED)
