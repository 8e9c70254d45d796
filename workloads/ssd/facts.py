"""The counts of a prepared detection data set, from its manifest alone."""

from __future__ import annotations

from pathlib import Path

from workloads.api import Facts
from workloads.common import manifest as manifests

GROUND_TRUTH = "val_ground_truth.json"
"""What COCO's metric compares with, in the prepared folder."""
PUBLISHED = {"train": 117_266, "val": 4_952, "classes": 80}
"""COCO 2017, images with objects (published logs: train_samples, eval_samples)."""
PUBLISHED_IMAGES = {"train": 118_287, "val": 5_000}
"""COCO 2017, all images."""


def read_facts(data_dir: str | Path) -> Facts:
    """Counts from the manifest of a prepared detection data set. Raises ValueError that says what to type."""
    folder = Path(data_dir)
    manifest = manifests.read(folder)
    if manifest is None:
        name = folder.name or "coco2017"
        how = f"suite data prepare {name} --from FOLDER --to {folder}"
        if name == "coco-demo":
            how = f"suite data make-demo {name}"
        raise ValueError(f"no prepared data in {folder}; type: {how}")
    try:
        counts = {name: int(manifest.counts[name]) for name in ("train", "val", "classes", "val_objects")}
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder / manifests.NAME} is not of a detection data set ({manifest.dataset})") from None
    return Facts(
        train_samples=counts["train"],
        evaluation_samples=counts["val"],
        sizes={"classes": counts["classes"]},
        fingerprint=manifest.fingerprint,
        notes=tuple(manifest.notes),
    )


def published_facts() -> Facts:
    """COCO's counts, for runs on made-up batches."""
    return Facts(PUBLISHED["train"], PUBLISHED["val"], {"classes": PUBLISHED["classes"]}, "synthetic")
