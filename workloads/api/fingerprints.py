"""Fingerprints of the published data sets as the suite prepares them: a run on a data set without one is open.

A manifest is a file that anybody can write. Its notes and counts cannot show that a data set is the published one. Its
fingerprint can: it is a digest over the digests of all prepared files, which are compared with the files before a run.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED_DATASETS = frozenset(
    (
        *("cifar10", "coco2014", "coco2017", "fashion-mnist", "imagenet", "ml-100k", "ml-1m", "ml-20m"),
        *("wmt16-en-de", "wmt17-en-de"),
    )
)
"""Names that promise a published data set."""

FINGERPRINTS: dict[str, Mapping[str, str]] = {}
"""Data set to its fingerprints, each with the download and the versions that it was prepared with (docs/rules.md)."""

NOT_VERIFIED = "data set fingerprint not verified"


def is_verified(dataset: str, fingerprint: str) -> bool:
    """Return whether a data set is the published one of its name; True for a name that promises none."""
    return dataset not in PUBLISHED_DATASETS or fingerprint in FINGERPRINTS.get(dataset, {})
