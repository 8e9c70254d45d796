"""The counts of a prepared image data set, from its manifest alone."""

from __future__ import annotations

from pathlib import Path

from workloads.api import Facts
from workloads.common import manifest as manifests

PUBLISHED = {"train": 1_281_167, "val": 50_000, "classes": 1_000}
"""ImageNet ILSVRC2012 (reference imagenet_main.py)."""


def read_facts(data_dir: str | Path) -> Facts:
    """Counts from the manifest of a prepared image data set. Raises ValueError that says what to type."""
    folder = Path(data_dir)
    manifest = manifests.read(folder)
    if manifest is None:
        name = folder.name or "imagenet"
        how = f"suite data prepare {name} --from FOLDER --to {folder}"
        if name == "imagenet-demo":
            how = f"suite data make-demo {name}"
        raise ValueError(f"no prepared data in {folder}; type: {how}")
    try:
        counts = {name: int(manifest.counts[name]) for name in ("train", "val", "classes")}
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder / manifests.NAME} is not of an image data set ({manifest.dataset})") from None
    return Facts(
        train_samples=counts["train"],
        evaluation_samples=counts["val"],
        sizes={"classes": counts["classes"]},
        fingerprint=manifest.fingerprint,
        notes=tuple(manifest.notes),
    )


def published_facts() -> Facts:
    """ImageNet's counts, for runs on made-up batches."""
    return Facts(PUBLISHED["train"], PUBLISHED["val"], {"classes": PUBLISHED["classes"]}, "synthetic")
