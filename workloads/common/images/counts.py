"""Counts of prepared image data sets, from the manifest alone, and what batch sizes they and the devices allow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workloads.api import Facts, Settings
from workloads.common import manifest as manifests


def read(folder: Path, kind: str, name: str, needed: tuple[str, ...] = ()) -> Facts:
    """Counts from the manifest of a prepared data set: images of `train` and `val`, `classes`.

    `kind`: how messages call such a data set. `name`: the real one, if the folder has no name. `needed`: other counts that it
    must have. Raises ValueError that says what to type.
    """
    manifest = manifests.read(folder)
    if manifest is None:
        name = folder.name or name
        how = f"suite data prepare {name} --from FOLDER --to {folder}"
        if name.endswith("-demo"):
            how = f"suite data make-demo {name}"
        raise ValueError(f"no prepared data in {folder}; type: {how}")
    try:
        counts = {count: int(manifest.counts[count]) for count in ("train", "val", "classes", *needed)}
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder / manifests.NAME} is not of {kind} data set ({manifest.dataset})") from None
    return Facts(
        train_samples=counts["train"],
        evaluation_samples=counts["val"],
        sizes={"classes": counts["classes"]},
        fingerprint=manifest.fingerprint,
        notes=tuple(manifest.notes),
    )


def published(counts: Mapping[str, int]) -> Facts:
    """A published data set's counts, for runs on made-up batches."""
    return Facts(counts["train"], counts["val"], {"classes": counts["classes"]}, "synthetic")


def check_batch(settings: Settings, facts: Facts) -> None:
    """Every device needs equally many images, since batch norm would see padding; and a batch is no larger than the data.

    Raises ValueError that says what to type.
    """
    batch, count = settings.batch_size_global, settings.devices
    if batch % count:
        raise ValueError(
            f"batch size {batch} cannot be shared equally by {count} devices (batch norm allows no padding); "
            f"type batch=global:{max(1, round(batch / count)) * count}"
        )
    if batch > facts.train_samples:
        raise ValueError(
            f"batch size {batch} is larger than the data set ({facts.train_samples} images); "
            f"type batch=global:{facts.train_samples // count * count} or less"
        )


def activation_bytes(values: int, precision: str) -> int:
    """Bytes kept for the backward pass of so many values behind convolutions: each before and behind its batch norm."""
    return 2 * values * (2 if precision in ("bf16", "fp16") else 4)
