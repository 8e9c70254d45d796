"""Sizes of a prepared MovieLens data set, read from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workloads.api import DatasetInfo
from workloads.common import manifest as manifests
from workloads.common.data.downloads import prepared
from workloads.common.data.published import COUNTS


def load_dataset_info(data_dir: str | Path) -> DatasetInfo:
    """Return the sizes in the manifest of a prepared MovieLens data set.

    Raises:
        ValueError: The data set is missing or is not a MovieLens data set. The error message
            contains the command that prepares the data set.
    """
    folder = Path(data_dir)
    manifest = prepared(folder, "ml-20m", source="FILE_OR_ZIP")
    try:
        counts = {name: int(manifest.counts[name]) for name in ("users", "items", "train")}
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{folder / manifests.NAME}: expected the manifest of a MovieLens data set, got"
            f" {manifest.dataset}"
        ) from None
    minimum = int(manifest.options.get("minimum_ratings", 20))
    return _facts(counts, minimum, manifest.fingerprint, manifests.notes(manifest))


def published_facts() -> DatasetInfo:
    """Return the published sizes of ML-20M for runs on synthetic batches."""
    return _facts(COUNTS["ml-20m"], 20, "synthetic")


def _facts(
    counts: Mapping[str, int], minimum: int, fingerprint: str, notes: tuple[str, ...] = ()
) -> DatasetInfo:
    sizes = {"users": counts["users"], "items": counts["items"], "min_ratings": minimum}
    return DatasetInfo(counts["train"], counts["users"], sizes, fingerprint, notes)
